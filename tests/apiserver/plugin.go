package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	pluginFile = "credential-plugin"
	pluginRuns = "credential-plugin.runs"
	// Strict on purpose: a client that leaves out what the protocol promises
	// to plugins should fail here and not first at a user's.
	pluginScript = `#!/bin/sh
# Plays the credential plugin of a cloud: credential-plugin token|certificate
set -eu
case "${KUBERNETES_EXEC_INFO-}" in
*'"client.authentication.k8s.io/v1"'*) ;;
*)
	echo "KUBERNETES_EXEC_INFO does not ask for client.authentication.k8s.io/v1" >&2
	exit 1
	;;
esac
lifetime=${LEASEHOLD_CREDENTIAL_SECONDS:?set it in env of the kubeconfig}
cd "$(dirname "$0")"
credential=$(cat "credential-plugin.$1")
echo "$1" >>credential-plugin.runs
# Two hours more, written as an offset: a client that ignores the offset
# believes in the credential for too long.
seconds=$(($(date +%s) + 7200 + lifetime))
expiry=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%S 2>/dev/null || date -u -r "$seconds" +%Y-%m-%dT%H:%M:%S)
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"expirationTimestamp":"%s+02:00",%s}}\n' \
	"$expiry" "$credential"
`
)

// writePlugin returns the absolute path of the script.
func writePlugin(dir, token string, certificate credential) (string, error) {
	for kind, status := range map[string]map[string]string{
		"token": {"token": token},
		"certificate": {
			"clientCertificateData": string(certificate.cert),
			"clientKeyData":         string(certificate.key),
		},
	} {
		content, err := json.Marshal(status)
		if err != nil {
			return "", fmt.Errorf("encode the plugin's %s: %w", kind, err)
		}
		// Without braces, so that the script can put it beside the expiry.
		fields := strings.Trim(string(content), "{}")
		if _, err := writeFile(dir, pluginFile+"."+kind, 0o600, []byte(fields)); err != nil {
			return "", err
		}
	}
	return writeFile(dir, pluginFile, 0o700, []byte(pluginScript))
}

func newExecPlugin(command, kind string) *execPlugin {
	return &execPlugin{
		APIVersion:      "client.authentication.k8s.io/v1",
		Command:         command,
		Args:            []string{kind},
		Env:             []execEnv{{Name: "LEASEHOLD_CREDENTIAL_SECONDS", Value: "3600"}},
		InteractiveMode: "Never",
	}
}
