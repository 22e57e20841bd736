package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// scratchLock is global so that no garbage collection closes it, which would
// give up the lock.
var scratchLock *os.File

// openScratch returns the absolute path of a directory that belongs to this
// process alone and holds no data of an earlier run.
func openScratch(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("--dir: %w", err)
	}
	scratchLock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("--dir: %w", err)
	}
	if err := syscall.Flock(int(scratchLock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", fmt.Errorf("another launcher uses %s (%w): give each its own --dir", dir, err)
	}
	// The new certificates and users would not match what an old store says.
	for _, stale := range []string{etcdData, auditLog, "etcd.log", "kube-apiserver.log", pluginRuns} {
		if err := os.RemoveAll(filepath.Join(dir, stale)); err != nil {
			return "", fmt.Errorf("clear what an earlier run left: %w", err)
		}
	}
	return dir, nil
}

func writeFile(dir, name string, mode os.FileMode, content []byte) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, mode); err != nil {
		return "", fmt.Errorf("write a file of the scratch directory: %w", err)
	}
	return path, nil
}
