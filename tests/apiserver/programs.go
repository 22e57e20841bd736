package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// findPrograms says how to start each server: by the argument vector that its
// flags are appended to.
func findPrograms() (map[string][]string, error) {
	programs := make(map[string][]string)
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		for _, name := range []string{"etcd", "kube-apiserver"} {
			path, err := filepath.Abs(filepath.Join(assets, name))
			if err == nil {
				path, err = exec.LookPath(path)
			}
			if err != nil {
				return nil, fmt.Errorf("KUBEBUILDER_ASSETS must name a directory with executables etcd and kube-apiserver: %w", err)
			}
			programs[name] = []string{path}
		}
		return programs, nil
	}

	if len(embedded) == 0 {
		return nil, errors.New("built with the tag assets: set KUBEBUILDER_ASSETS, or build again without it")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	for name := range embedded {
		programs[name] = []string{self, name}
	}
	return programs, nil
}
