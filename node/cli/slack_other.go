//go:build !linux

package cli

func startAgain() {}
