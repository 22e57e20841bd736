package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

const (
	candidate  = "candidate"
	noWatch    = "no-watch"
	nobody     = "nobody"
	tokensFile = "tokens.csv"
)

// writeUsers makes every way to authenticate and returns the kubeconfigs by name.
func writeUsers(dir, url string, pki *pki) (map[string]string, error) {
	tokens := make(map[string]string)
	var table strings.Builder
	for _, user := range []string{candidate, noWatch, nobody} {
		tokens[user] = rand.Text()
		fmt.Fprintf(&table, "%s,%s,%s-uid\n", tokens[user], user, user)
	}
	for name, content := range map[string][]byte{
		tokensFile:        []byte(table.String()),
		"candidate.crt":   pki.pkcs8.cert,
		"candidate.key":   pki.pkcs8.key,
		"ca-bundle.crt":   pki.bundle,
		"candidate.token": []byte(tokens[candidate] + "\n"),
	} {
		if _, err := writeFile(dir, name, 0o600, content); err != nil {
			return nil, err
		}
	}
	plugin, err := writePlugin(dir, tokens[candidate], pki.pkcs8)
	if err != nil {
		return nil, err
	}

	inline := cluster{Server: url, CAData: base64.StdEncoding.EncodeToString(pki.ca.pem)}
	impersonating := byCertificate(pki.admin)
	impersonating.As = candidate
	kubeconfigs := make(map[string]string)
	for _, k := range []struct {
		name    string
		cluster cluster
		user    authInfo
	}{
		{"admin", inline, byCertificate(pki.admin)},
		{"admin-impersonating-candidate", inline, impersonating},
		{candidate, inline, authInfo{Token: tokens[candidate]}},
		{"candidate-cert", inline, byCertificate(pki.pkcs8)},
		{"candidate-cert-pkcs1", inline, byCertificate(pki.pkcs1)},
		{"candidate-cert-sec1", inline, byCertificate(pki.sec1)},
		{"candidate-cert-version-1", inline, byCertificate(pki.version1)},
		// Relative names count from the kubeconfig's own directory.
		{"candidate-cert-files", cluster{Server: url, CA: "ca-bundle.crt"},
			authInfo{ClientCert: "candidate.crt", ClientKey: "./candidate.key"}},
		{"candidate-token-file", inline, authInfo{TokenFile: "candidate.token"}},
		{"candidate-exec", inline, authInfo{Exec: newExecPlugin("./"+pluginFile, "token")}},
		{"candidate-exec-cert", inline, authInfo{Exec: newExecPlugin(plugin, "certificate")}},
		{noWatch, inline, authInfo{Token: tokens[noWatch]}},
		{nobody, inline, authInfo{Token: tokens[nobody]}},
	} {
		path, err := writeKubeconfig(dir, k.name, k.cluster, k.user)
		if err != nil {
			return nil, err
		}
		kubeconfigs[k.name] = path
	}
	return kubeconfigs, nil
}

func byCertificate(c credential) authInfo {
	return authInfo{
		ClientCertData: base64.StdEncoding.EncodeToString(c.cert),
		ClientKeyData:  base64.StdEncoding.EncodeToString(c.key),
	}
}
