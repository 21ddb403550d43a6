package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxShown bounds the output that is shown of a run without a finding, in bytes.
	maxShown   = 2000
	simulation = "./node/simulation"
	// simulatedFor is how long the simulation may look for a bug.
	simulatedFor = time.Minute
)

// tryCluster builds the program with the bug and lets chaos find it. by is the check
// that did.
func (b *bug) tryCluster(ctx context.Context, dir string) (by string, err error) {
	chaos := filepath.Join(dir, "chaos")
	if out, err := command(ctx, ".", "go", "build", "-o", chaos, "./scripts/chaos"); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	run, err := os.MkdirTemp(dir, "run-") // nodes of the previous bug left their files behind
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "commons")
	return b.look(ctx, dir, []string{"build", "-o", binary}, ".", regexp.MustCompile(`(?m)^ *FAILED  ([^:]+):`),
		chaos, "-binary", binary, "-dir", run, "-scenario", b.scenario, "-seed", "1")
}

// simulatedBugs returns the bugs that the simulation has to find.
func simulatedBugs(bugs []bug) []bug {
	return slices.DeleteFunc(bugs, func(b bug) bool { return b.simulated == "" })
}

// trySimulated runs the simulation with the bug, from seed 1 on. by is the seed that found it.
func (b *bug) trySimulated(ctx context.Context, dir string) (by string, err error) {
	binary := filepath.Join(dir, "simulation.test")
	return b.look(ctx, dir, []string{"test", "-c", "-vet=off", "-o", binary}, simulation, regexp.MustCompile(`(seed \d+) failed, after `),
		binary, "-test.run", "^"+b.simulated+"$", "-test.timeout", testTimeout.String(), "-seed", "1", "-for", simulatedFor.String())
}

// look builds a package with the bug and runs a program in its directory. It returns what the
// program found, each finding once.
func (b *bug) look(ctx context.Context, dir string, build []string, pkg string, finding *regexp.Regexp, run ...string) (by string, err error) {
	overlay, err := b.overlay(dir)
	if err != nil {
		return "", err
	}
	if out, err := command(ctx, ".", "go", append(build, "-overlay", overlay, pkg)...); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	out, err := command(ctx, pkg, run[0], run[1:]...)
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return "", err
	}
	var found []string
	for _, match := range finding.FindAllSubmatch(out, -1) {
		if name := string(match[1]); !slices.Contains(found, name) { // chaos prints it again at the end
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s does not find it:\n%s", strings.Join(run, " "), out[max(0, len(out)-maxShown):])
	}
	return strings.Join(found, "; "), nil
}
