package main

import (
	"context"
	"path/filepath"
)

const etcdData = "etcd"

func newEtcd(programs map[string][]string, dir, clientURL, peerURL string) *child {
	return &child{
		name:    "etcd",
		program: programs["etcd"],
		args: []string{
			"--name=default",
			"--data-dir=" + filepath.Join(dir, etcdData),
			"--listen-client-urls=" + clientURL,
			"--advertise-client-urls=" + clientURL,
			"--listen-peer-urls=" + peerURL,
			"--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=default=" + peerURL,
			// Tests outlive no power cut, and a slow disk must not make
			// them flaky.
			"--unsafe-no-fsync=true",
			"--log-level=warn",
		},
		logFile: filepath.Join(dir, "etcd.log"),
		ready:   func(ctx context.Context) error { return probe(ctx, plainHTTP, clientURL+"/health") },
	}
}
