// Command apiserver gives leasehold's tests a real kube-apiserver on a real
// etcd. Without a sub-command it is a launcher that runs the two servers as
// child processes and obeys commands on its standard input; see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		if server, found := embedded[os.Args[1]]; found {
			if err := server(os.Args[2:]); err != nil {
				fail(fmt.Errorf("%s: %w", os.Args[1], err))
			}
			return
		}
	}

	var opts options
	flag.StringVar(&opts.dir, "dir", "", "scratch `directory` for certificates, kubeconfigs, data and logs; made when absent")
	flag.StringVar(&opts.rbac, "rbac", "", "YAML `manifest` whose Roles the user candidate gets (default: leases, without delete)")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(fmt.Errorf("no such sub-command: %q (this binary embeds %d servers)", flag.Arg(0), len(embedded)))
	}
	if opts.dir == "" {
		fail(errors.New("--dir is missing: name a scratch directory"))
	}

	// The kernel's parent-death signal follows the thread that forked, so
	// every child must come from a thread that lives as long as the launcher.
	runtime.LockOSThread()

	// SIGPIPE is among them so that a reader who goes away ends the servers
	// in good order instead of ending the launcher halfway.
	ctx, cancel := signal.NotifyContext(context.Background(),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer cancel()
	if err := launch(ctx, cancel, opts); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "apiserver:", err)
	os.Exit(1)
}
