package main

import (
	"context"
	"fmt"
	"path/filepath"
)

const (
	auditLog    = "audit.log"
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages:
- RequestReceived
rules:
- level: Metadata
  resources:
  - group: coordination.k8s.io
    resources: [leases]
  - group: ""
    resources: [configmaps, endpoints]
- level: None
`
)

func newKubeAPIServer(programs map[string][]string, dir string, port int, etcdURL string, admin *admin) (*child, error) {
	policy, err := writeFile(dir, "audit-policy.yaml", 0o600, []byte(auditPolicy))
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	return &child{
		name:    "kube-apiserver",
		program: programs["kube-apiserver"],
		args: []string{
			"--etcd-servers=" + etcdURL,
			"--bind-address=127.0.0.1",
			"--advertise-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", port),
			"--cert-dir=" + dir,
			"--tls-cert-file=" + file(serverCert),
			"--tls-private-key-file=" + file(serverKey),
			"--client-ca-file=" + file(caCert),
			"--token-auth-file=" + file(tokensFile),
			"--anonymous-auth=false",
			"--authorization-mode=RBAC",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-signing-key-file=" + file(serviceAccountKey),
			"--service-account-key-file=" + file(serviceAccountKey),
			"--service-cluster-ip-range=10.0.0.0/24",
			"--allow-privileged=true",
			// 127.0.0.1 is no valid endpoint address; the default reconciler
			// would complain about it for ever.
			"--endpoint-reconciler-type=none",
			// These wait for controllers that do not run here, or concern
			// pods and storage alone.
			"--disable-admission-plugins=ServiceAccount,ResourceQuota,LimitRanger,Priority,TaintNodesByCondition," +
				"DefaultTolerationSeconds,DefaultStorageClass,StorageObjectInUseProtection,PersistentVolumeClaimResize," +
				"RuntimeClass,PodSecurity,DefaultIngressClass",
			"--audit-policy-file=" + policy,
			"--audit-log-path=" + file(auditLog),
			// Else one open watch makes the server linger for a minute when it
			// is told to stop.
			"--shutdown-watch-termination-grace-period=1s",
			// Rotation would make a count of requests come out short.
			"--audit-log-maxsize=1000000",
			"--profiling=false",
			"--v=0",
		},
		logFile: file("kube-apiserver.log"),
		ready:   func(ctx context.Context) error { return admin.probe(ctx, "/readyz") },
	}, nil
}
