//go:build !linux

package main

import "syscall"

// childAttributes keeps a terminal's Ctrl-C from the children, which the
// launcher ends itself. Where there is no parent-death signal, a launcher
// that is killed outright leaves its children behind.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
