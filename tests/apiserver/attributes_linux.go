package main

import "syscall"

// childAttributes keeps a terminal's Ctrl-C from the children, which the
// launcher ends itself, and makes even a killed launcher take them along.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
