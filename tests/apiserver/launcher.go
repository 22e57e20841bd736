package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	namespace    = "leasehold-tests"
	startTimeout = 120 * time.Second
	endGrace     = 5 * time.Second
)

type options struct {
	dir  string
	rbac string
}

// report is the one line that tells a test all it needs to know.
type report struct {
	URL         string            `json:"url"`
	EtcdURL     string            `json:"etcd_url"`
	Version     string            `json:"version"`
	PIDs        map[string]int    `json:"pids"`
	Namespace   string            `json:"namespace"`
	Dir         string            `json:"dir"`
	AuditLog    string            `json:"audit_log"`
	CA          string            `json:"ca"`
	Kubeconfigs map[string]string `json:"kubeconfigs"`
}

// launch runs both servers until ctx ends or standard input does.
func launch(ctx context.Context, cancel context.CancelFunc, opts options) error {
	// Listening to standard input from the very start lets a test that dies
	// during start-up take the servers along too.
	commands := readLines(os.Stdin, cancel)

	// Read before anything is started: a bad manifest should fail at once.
	grants, err := readGrants(opts.rbac)
	if err != nil {
		return err
	}
	dir, err := openScratch(opts.dir)
	if err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	etcdURL := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[2])

	pki, err := newPKI(dir)
	if err != nil {
		return err
	}
	kubeconfigs, err := writeUsers(dir, url, pki)
	if err != nil {
		return err
	}
	admin, err := newAdmin(url, pki)
	if err != nil {
		return err
	}
	programs, err := findPrograms()
	if err != nil {
		return err
	}
	etcd := newEtcd(programs, dir, etcdURL, peerURL)
	apiserver, err := newKubeAPIServer(programs, dir, ports[0], etcdURL, admin)
	if err != nil {
		return err
	}

	children := map[string]*child{etcd.name: etcd, apiserver.name: apiserver}
	// kube-apiserver ends first because it needs etcd for an orderly end.
	// Errors are ignored because the launcher ends here.
	defer func() {
		_ = etcd.signal(syscall.SIGCONT)
		_ = apiserver.end(syscall.SIGTERM, endGrace)
		_ = etcd.end(syscall.SIGTERM, endGrace)
		// The store takes 60 MB. The logs stay.
		_ = os.RemoveAll(filepath.Join(dir, etcdData))
	}()
	version, err := startAll(ctx, etcd, apiserver, admin, grants)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}

	out := json.NewEncoder(os.Stdout)
	err = out.Encode(report{
		URL:         url,
		EtcdURL:     etcdURL,
		Version:     version,
		PIDs:        map[string]int{etcd.name: etcd.pid(), apiserver.name: apiserver.pid()},
		Namespace:   namespace,
		Dir:         dir,
		AuditLog:    filepath.Join(dir, auditLog),
		CA:          pki.caFile,
		Kubeconfigs: kubeconfigs,
	})
	if err != nil {
		return fmt.Errorf("write the report to standard output: %w", err)
	}
	return obey(ctx, commands, children, out)
}

// startAll returns the version of the kube-apiserver once candidates can work.
func startAll(ctx context.Context, etcd, apiserver *child, admin *admin, grants []grant) (string, error) {
	// Both at once: kube-apiserver spends its first second on its own set-up
	// and keeps trying its etcd anyway.
	for _, c := range []*child{etcd, apiserver} {
		if err := c.start(); err != nil {
			return "", err
		}
	}
	for _, c := range []*child{etcd, apiserver} {
		if err := c.awaitReady(ctx); err != nil {
			return "", err
		}
	}
	if err := admin.create(ctx, "/api/v1/namespaces", object{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata":   object{"name": namespace},
	}, nil); err != nil {
		return "", err
	}
	if err := applyGrants(ctx, admin, grants); err != nil {
		return "", err
	}
	return admin.version(ctx)
}
