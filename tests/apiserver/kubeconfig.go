package main

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// kubeconfig has the parts of a kubeconfig file that the tests need.
type kubeconfig struct {
	APIVersion     string         `yaml:"apiVersion"`
	Kind           string         `yaml:"kind"`
	CurrentContext string         `yaml:"current-context"`
	Clusters       []namedCluster `yaml:"clusters"`
	Contexts       []namedContext `yaml:"contexts"`
	Users          []namedUser    `yaml:"users"`
}

type namedCluster struct {
	Name    string  `yaml:"name"`
	Cluster cluster `yaml:"cluster"`
}

type cluster struct {
	Server string `yaml:"server"`
	CA     string `yaml:"certificate-authority,omitempty"`
	CAData string `yaml:"certificate-authority-data,omitempty"`
}

type namedContext struct {
	Name    string        `yaml:"name"`
	Context configContext `yaml:"context"`
}

type configContext struct {
	Cluster   string `yaml:"cluster"`
	Namespace string `yaml:"namespace"`
	User      string `yaml:"user"`
}

type namedUser struct {
	Name string   `yaml:"name"`
	User authInfo `yaml:"user"`
}

type authInfo struct {
	ClientCert     string      `yaml:"client-certificate,omitempty"`
	ClientKey      string      `yaml:"client-key,omitempty"`
	ClientCertData string      `yaml:"client-certificate-data,omitempty"`
	ClientKeyData  string      `yaml:"client-key-data,omitempty"`
	Token          string      `yaml:"token,omitempty"`
	TokenFile      string      `yaml:"tokenFile,omitempty"`
	As             string      `yaml:"as,omitempty"`
	Exec           *execPlugin `yaml:"exec,omitempty"`
}

type execPlugin struct {
	APIVersion      string    `yaml:"apiVersion"`
	Command         string    `yaml:"command"`
	Args            []string  `yaml:"args"`
	Env             []execEnv `yaml:"env"`
	InteractiveMode string    `yaml:"interactiveMode"`
}

type execEnv struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

func writeKubeconfig(dir, name string, cluster cluster, user authInfo) (string, error) {
	var content bytes.Buffer
	encoder := yaml.NewEncoder(&content)
	// The layout that kubectl writes.
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err := encoder.Encode(kubeconfig{
		APIVersion:     "v1",
		Kind:           "Config",
		CurrentContext: name,
		Clusters:       []namedCluster{{Name: "leasehold", Cluster: cluster}},
		Contexts: []namedContext{{Name: name, Context: configContext{
			Cluster:   "leasehold",
			Namespace: namespace,
			User:      name,
		}}},
		Users: []namedUser{{Name: name, User: user}},
	})
	if err != nil {
		return "", fmt.Errorf("encode the kubeconfig of %s: %w", name, err)
	}
	return writeFile(dir, name+".kubeconfig", 0o600, content.Bytes())
}
