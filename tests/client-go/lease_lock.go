//go:build !core_locks

package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// newLock makes the one kind that client-go still has. It does without resourcelock.New, which would link the clients of
// core/v1: benches/compare weighs this program.
func newLock(config *rest.Config, lockType, namespace, name, id string) (resourcelock.Interface, error) {
	if lockType != "leases" {
		return nil, fmt.Errorf("--lock-type %s: leases is all that is left", lockType)
	}
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: id},
	}, nil
}
