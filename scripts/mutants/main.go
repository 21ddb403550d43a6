// Command mutants reintroduces known bugs, one by one, and runs the tests that have to
// detect them. It fails if a bug is not detected, or if the tests fail without a bug.
// The edits are passed only to the compiler: the working tree does not change.
//
//	mutants [-cluster | -simulation] [-for 3m] [-seed TEXT] [words of a bug's name ...]
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// testTimeout bounds the tests of one bug. They are chosen to take seconds, but some wait
// for a condition that does not come, see nodetest.Patience.
const testTimeout = 4 * time.Minute

func main() {
	limit := flag.Duration("for", 0, "begin no further bug after this time; 0 is no limit")
	cluster := flag.Bool("cluster", false, "try the bugs that scripts/chaos has to find in a cluster of real nodes, a minute each")
	simulation := flag.Bool("simulation", false, "try the bugs that node/simulation has to find, at most a minute each")
	seed := flag.String("seed", "", "try the bugs in an order that this text decides, such as a commit's hash")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	tested, played, err := readBugs(known)
	table, try := tested, (*bug).try
	switch {
	case *cluster:
		table, try = played, (*bug).tryCluster
	case *simulation:
		table = slices.DeleteFunc(slices.Concat(tested, played), func(b bug) bool { return b.simulated == "" })
		try = (*bug).trySimulated
	}
	if err == nil {
		err = run(ctx, choose(table, flag.Args(), *seed), *limit, try)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// choose returns the bugs with one of the words in their names, or all if there are no
// words. They are in the table's order, or in an order that depends on a seed. A run
// that is short of time tries the first ones, so runs with other seeds try others.
func choose(bugs []bug, words []string, seed string) []bug {
	chosen := slices.DeleteFunc(slices.Clone(bugs), func(b bug) bool {
		return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(b.name, w) })
	})
	if seed != "" {
		random := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed))))
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	}
	return chosen
}

// run tries the bugs in turn and begins no further bug after the limit.
func run(ctx context.Context, chosen []bug, limit time.Duration, try func(*bug, context.Context, string) (string, error)) (err error) {
	if len(chosen) == 0 {
		return errors.New("no bug has such a name; they stand in scripts/mutants/bugs.txt")
	}
	dir, err := os.MkdirTemp("", "commons-mutants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	start := time.Now()
	var tried int
	var missed []error
	for i := range chosen {
		if limit > 0 && tried > 0 && time.Since(start) > limit {
			break
		}
		b, began := &chosen[i], time.Now()
		by, err := try(b, ctx, dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tried++
		took := time.Since(began).Seconds()
		if err != nil {
			missed = append(missed, fmt.Errorf("%s: %w", b.name, err))
			fmt.Printf("MISSED  %s (%s), in %.0f s: %v\n", b.name, b.because, took, err)
			continue
		}
		fmt.Printf("caught  %s, by %s, in %.0f s\n", b.name, by, took)
	}
	fmt.Printf("%d of %d known bugs caught, %d left to other runs\n", tried-len(missed), tried, len(chosen)-tried)
	return errors.Join(missed...)
}

// try runs the tests without the bug and with it, and returns the test that noticed.
// dir is for temporary files.
func (b *bug) try(ctx context.Context, dir string) (by string, err error) {
	// Go remembers tests that passed: only what has changed is run again.
	if out, err := command(ctx, ".", "go", "test", "-vet=off", "-run", b.run, b.pkg); err != nil {
		return "", fmt.Errorf("the tests fail without it: %w\n%s", err, out)
	} else if bytes.Contains(out, []byte("no tests to run")) {
		return "", fmt.Errorf("%s has no test %s", b.pkg, b.run)
	}
	kept := filepath.Join(b.pkg, "testdata", "rapid") // inputs that random tests save when they fail
	if _, err := os.Stat(kept); err != nil {
		defer os.RemoveAll(kept)
	} // otherwise someone investigates a failure
	binary := filepath.Join(dir, "bug.test")
	return b.look(ctx, dir, []string{"test", "-c", "-vet=off", "-o", binary}, b.pkg, failedTest,
		binary, "-test.run", b.run, "-test.failfast", "-test.timeout", testTimeout.String())
}

// failedTest matches the line of a test that failed.
var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// overlay writes the files with the bug to dir, and what makes the compiler read
// them instead of the files of the tree.
func (b *bug) overlay(dir string) (file string, err error) {
	changed := map[string][]byte{}
	for i := range b.edits {
		if err := b.edits[i].apply(changed); err != nil {
			return "", err
		}
	}
	replace := make(map[string]string, len(changed))
	for path, data := range changed {
		replace[path] = filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(replace[path], data, 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// command runs a program in a directory and returns its output.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	// A program that hangs in spite of its own limit is ended a little later.
	ctx, cancel := context.WithTimeout(ctx, testTimeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

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
	if bytes.Contains(out, []byte("panic: test timed out")) {
		return "", fmt.Errorf("%s did not end in %v", strings.Join(run, " "), testTimeout)
	}
	found := findings(out, finding)
	if len(found) == 0 {
		return "", fmt.Errorf("%s does not find it:\n%s", strings.Join(run, " "), out[max(0, len(out)-maxShown):])
	}
	return strings.Join(found, "; "), nil
}

// findings returns what the first group of a pattern matches in an output, each text once: chaos
// prints it again at the end.
func findings(out []byte, pattern *regexp.Regexp) (found []string) {
	for _, match := range pattern.FindAllSubmatch(out, -1) {
		if name := string(match[1]); !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}
