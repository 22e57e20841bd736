package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
)

// More than the minute that kube-apiserver gives its own requests to finish.
const stopGrace = 90 * time.Second

type answer struct {
	OK    bool   `json:"ok"`
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
}

// readLines calls atEnd as soon as the input ends, even while earlier lines
// wait: whoever sent them is gone.
func readLines(in io.Reader, atEnd func()) <-chan string {
	lines := make(chan string, 64)
	go func() {
		defer atEnd()
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}

func obey(ctx context.Context, commands <-chan string, children map[string]*child, out *json.Encoder) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-commands:
			result := answer{OK: true}
			c, err := command(ctx, line, children)
			if err != nil {
				result = answer{Error: err.Error()}
			} else {
				result.PID = c.pid()
			}
			if err := out.Encode(result); err != nil {
				return fmt.Errorf("answer %q on standard output: %w", line, err)
			}
		}
	}
}

func command(ctx context.Context, line string, children map[string]*child) (*child, error) {
	verb, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	c, found := children[strings.TrimSpace(name)]
	if !found {
		return nil, fmt.Errorf("%q does not name a server: say etcd or kube-apiserver after the verb", line)
	}
	switch verb {
	case "start":
		if err := c.start(); err != nil {
			return nil, err
		}
		return c, c.awaitReady(ctx)
	case "stop":
		return c, c.end(syscall.SIGTERM, stopGrace)
	case "kill":
		return c, c.end(syscall.SIGKILL, endGrace)
	case "pause":
		return c, c.signal(syscall.SIGSTOP)
	case "continue":
		return c, c.signal(syscall.SIGCONT)
	default:
		return nil, fmt.Errorf("%q is no command: say start, stop, kill, pause or continue", line)
	}
}
