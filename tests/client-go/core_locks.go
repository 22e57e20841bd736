//go:build core_locks

package main

import (
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// newLock makes whichever kind this client-go has: v0.23 was the last with configmaps and endpoints, v0.27 the last with
// configmapsleases and endpointsleases.
func newLock(config *rest.Config, lockType, namespace, name, id string) (resourcelock.Interface, error) {
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return resourcelock.New(lockType, namespace, name, core, coordination, resourcelock.ResourceLockConfig{Identity: id})
}
