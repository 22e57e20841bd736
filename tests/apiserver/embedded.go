//go:build !assets

package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

var embedded = map[string]func(args []string) error{
	"etcd":           serveEtcd,
	"kube-apiserver": serveKubeAPIServer,
	// A test of rollouts starts this program itself, with its own flags.
	"kube-controller-manager": serveKubeControllerManager,
}

func serveKubeAPIServer(args []string) error {
	command := app.NewAPIServerCommand()
	command.SetArgs(args)
	os.Exit(cli.Run(command))
	return nil
}

func serveKubeControllerManager(args []string) error {
	command := manager.NewControllerManagerCommand()
	command.SetArgs(args)
	os.Exit(cli.Run(command))
	return nil
}

// serveEtcd takes etcd's own flags, so that one command line serves this and
// a stand-alone etcd.
func serveEtcd(args []string) error {
	config := embed.NewConfig()
	set := flag.NewFlagSet("etcd", flag.ExitOnError)
	config.AddFlags(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	config.ListenClientUrls = flags.UniqueURLsFromFlag(set, "listen-client-urls")
	config.AdvertiseClientUrls = flags.UniqueURLsFromFlag(set, "advertise-client-urls")
	config.ListenPeerUrls = flags.UniqueURLsFromFlag(set, "listen-peer-urls")
	config.AdvertisePeerUrls = flags.UniqueURLsFromFlag(set, "initial-advertise-peer-urls")

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer etcd.Close()
	select {
	case <-stop:
		return nil
	case <-etcd.Server.StopNotify():
		return fmt.Errorf("the server stopped")
	case err := <-etcd.Err():
		return fmt.Errorf("serve: %w", err)
	}
}
