//go:build unix && !linux

package dev

import "syscall"

// childAttributes gives a child a process group of its own, so that Ctrl-C
// reaches it only through us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
