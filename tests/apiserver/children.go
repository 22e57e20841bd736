package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var errNotRunning = errors.New("is not running")

// child is a server that can be started, ended and started again.
// Its methods belong to the main goroutine.
type child struct {
	name    string
	program []string
	args    []string
	logFile string
	ready   func(context.Context) error

	current *process
}

type process struct {
	cmd *exec.Cmd
	// Tells the goroutine that reaps it that its end is no news.
	endWanted atomic.Bool
	ended     chan struct{}
}

func (c *child) running() bool {
	if c.current == nil {
		return false
	}
	select {
	case <-c.current.ended:
		return false
	default:
		return true
	}
}

func (c *child) pid() int {
	return c.current.cmd.Process.Pid
}

func (c *child) start() error {
	if c.running() {
		return fmt.Errorf("%s runs already, as process %d", c.name, c.pid())
	}
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer log.Close()

	argv := append(slices.Clone(c.program), c.args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// etcd takes options from the environment, which must not change the tests.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}

	p := &process{cmd: cmd, ended: make(chan struct{})}
	c.current = p
	go func() {
		err := cmd.Wait()
		if !p.endWanted.Load() {
			fmt.Fprintf(os.Stderr, "apiserver: %s ended by itself (%v); the end of %s:\n%s",
				c.name, errOr(err, "exit status 0"), c.logFile, tail(c.logFile, 40))
		}
		close(p.ended)
	}()
	return nil
}

// awaitReady also gives up when the process ends or ctx does.
func (c *child) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := c.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.current.ended:
			return fmt.Errorf("%s ended before it was ready: see %s", c.name, c.logFile)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("wait for %s: %w", c.name, ctx.Err())
			}
			return fmt.Errorf("%s was not ready within %v (%w); the end of %s:\n%s",
				c.name, startTimeout, err, c.logFile, tail(c.logFile, 40))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *child) signal(sig syscall.Signal) error {
	if !c.running() {
		return fmt.Errorf("%s %w", c.name, errNotRunning)
	}
	if err := c.current.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, c.name, err)
	}
	return nil
}

// end sends sig and waits; after grace it kills, and says so.
func (c *child) end(sig syscall.Signal, grace time.Duration) error {
	if !c.running() {
		return fmt.Errorf("%s %w", c.name, errNotRunning)
	}
	c.current.endWanted.Store(true)
	if err := c.signal(sig); err != nil && c.running() {
		return err
	}
	// A paused process would sleep through anything but SIGKILL.
	_ = c.signal(syscall.SIGCONT)
	select {
	case <-c.current.ended:
		return nil
	case <-time.After(grace):
	}
	_ = c.signal(syscall.SIGKILL)
	<-c.current.ended
	return fmt.Errorf("%s did not end within %v of %v and was killed", c.name, grace, sig)
}

func tail(path string, lines int) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Appendln(nil, err)
	}
	all := bytes.SplitAfter(content, []byte("\n"))
	return bytes.Join(all[max(0, len(all)-1-lines):], nil)
}

func errOr(err error, otherwise string) string {
	if err == nil {
		return otherwise
	}
	return err.Error()
}
