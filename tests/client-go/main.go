// A candidate on client-go, as its example is: one term, released on SIGTERM.
// It prints what examples/leader_election.rs prints, one JSON object a line.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file")
	lease := flag.String("lease", "", "name of the object")
	id := flag.String("id", "", "identity")
	namespace := flag.String("namespace", "", "namespace of the object (default: the kubeconfig's)")
	lockType := flag.String("lock-type", "leases", "a kind that this client-go has")
	leaseDuration := flag.Duration("lease-duration", 15*time.Second, "")
	renewDeadline := flag.Duration("renew-deadline", 10*time.Second, "")
	retryPeriod := flag.Duration("retry-period", 2*time.Second, "")
	heartbeat := flag.Duration("heartbeat", 0, "print a `leading` line this often (0: never)")
	asJSON := flag.Bool("json", false, "send JSON, for a server without protobuf")
	hang := flag.Bool("hang", false, "deadlock as soon as it leads")
	flag.Parse()

	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: *kubeconfig}, nil)
	config, err := loader.ClientConfig()
	must(err)
	if *asJSON {
		config.ContentType = "application/json"
	}
	if *namespace == "" {
		*namespace, _, err = loader.Namespace()
		must(err)
	}
	lock, err := newLock(config, *lockType, *namespace, *lease, *id)
	must(err)

	say := func(event string, mono float64, more map[string]any) {
		line := map[string]any{"event": event, "identity": *id, "mono": mono}
		for key, value := range more {
			line[key] = value
		}
		must(json.NewEncoder(os.Stdout).Encode(line))
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var elector *leaderelection.LeaderElector
	elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   *leaseDuration,
		RenewDeadline:   *renewDeadline,
		RetryPeriod:     *retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				say("started_leading", monotonic(), nil)
				if *hang {
					<-make(chan struct{})
				}
				for *heartbeat > 0 {
					// Taken before the check that it reports: at this time
					// the lease was still ours. ctx alone would not do: after
					// a renew deadline client-go releases the lease first and
					// cancels ctx then.
					mono := monotonic()
					if ctx.Err() != nil || !elector.IsLeader() {
						return
					}
					say("leading", mono, nil)
					time.Sleep(*heartbeat)
				}
			},
			OnStoppedLeading: func() { say("stopped_leading", monotonic(), nil) },
			OnNewLeader: func(leader string) {
				say("new_leader", monotonic(), map[string]any{"leader": leader})
			},
		},
	})
	must(err)
	elector.Run(ctx)
}

// monotonic reads the clock that all processes of a machine share.
func monotonic() float64 {
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
