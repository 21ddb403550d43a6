package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// maxShown bounds the output that is shown of a run without a finding, in bytes.
const maxShown = 2000

// tryCluster builds the program with the bug and lets chaos find it. by is the check
// that did.
func (b *bug) tryCluster(ctx context.Context, dir string) (by string, err error) {
	overlay, err := b.overlay(dir)
	if err != nil {
		return "", err
	}
	binary, chaos := filepath.Join(dir, "commons"), filepath.Join(dir, "chaos")
	for _, args := range [][]string{{"build", "-overlay", overlay, "-o", binary, "."}, {"build", "-o", chaos, "./scripts/chaos"}} {
		if out, err := command(ctx, ".", "go", args...); err != nil {
			return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
		}
	}
	run, err := os.MkdirTemp(dir, "run-") // nodes of the previous bug left their files behind
	if err != nil {
		return "", err
	}
	out, err := command(ctx, ".", chaos, "-binary", binary, "-dir", run, "-out", filepath.Join(dir, "report"), "-scenario", b.scenario, "-seed", "1")
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return "", err
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "FAILED  "); ok {
			if name, _, _ := strings.Cut(rest, ":"); !slices.Contains(found, name) { // each is printed again at the end
				found = append(found, name)
			}
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no check of %q found it:\n%s", b.scenario, out[max(0, len(out)-maxShown):])
	}
	return strings.Join(found, "; "), nil
}
