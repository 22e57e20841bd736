//go:build assets

package main

// The servers come from KUBEBUILDER_ASSETS: leaving them out here makes the
// build a matter of seconds.
var embedded map[string]func(args []string) error
