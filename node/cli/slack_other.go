//go:build !linux

package cli

// startAgain does nothing: only Linux has a slack of timers.
func startAgain() {}
