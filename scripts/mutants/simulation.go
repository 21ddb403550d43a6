package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

const (
	simulation = "./node/simulation"
	// simulatedFor is how long the simulation may look for a bug.
	simulatedFor = time.Minute
)

// simulatedBugs returns the bugs that the simulation has to find.
func simulatedBugs(bugs []bug) []bug {
	return slices.DeleteFunc(bugs, func(b bug) bool { return b.simulated == "" })
}

// finding is the line in which a test of the simulation reports the seed of its finding.
var finding = regexp.MustCompile(`seed \d+ failed, after [^:]+`)

// trySimulated runs the simulation with the bug, from seed 1 on. by is the test and the
// seed that found it.
func (b *bug) trySimulated(ctx context.Context, dir string) (by string, err error) {
	overlay, err := b.overlay(dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "simulation.test")
	if out, err := command(ctx, ".", "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, simulation); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	out, err := command(ctx, simulation, binary, "-test.run", "^"+b.simulated+"$", "-test.timeout", testTimeout.String(), "-seed", "1", "-for", simulatedFor.String())
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return "", err
	}
	found := finding.Find(out)
	if found == nil {
		return "", fmt.Errorf("%s does not find it:\n%s", b.simulated, out[max(0, len(out)-maxShown):])
	}
	return b.simulated + ": " + string(found), nil
}
