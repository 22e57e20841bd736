// A candidate on client-go, as its example is: one term, released on SIGTERM.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file")
	lease := flag.String("lease", "", "name of the Lease")
	id := flag.String("id", "", "identity")
	leaseDuration := flag.Duration("lease-duration", 15*time.Second, "")
	renewDeadline := flag.Duration("renew-deadline", 10*time.Second, "")
	retryPeriod := flag.Duration("retry-period", 2*time.Second, "")
	flag.Parse()

	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: *kubeconfig}, nil)
	config, err := loader.ClientConfig()
	must(err)
	namespace, _, err := loader.Namespace()
	must(err)
	client, err := coordinationv1.NewForConfig(config)
	must(err)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: *lease},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: *id},
		},
		LeaseDuration:   *leaseDuration,
		RenewDeadline:   *renewDeadline,
		RetryPeriod:     *retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("started_leading") },
			OnStoppedLeading: func() { say("stopped_leading") },
		},
	})
}

func say(event string) {
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"event": event, "mono": float64(now.Sec) + float64(now.Nsec)/1e9,
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
