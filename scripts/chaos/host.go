package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// system runs a command of this machine.
func system(ctx context.Context, command ...string) error {
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
}
