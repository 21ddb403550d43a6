// Command mutants puts known bugs back into a copy of the tree, one by one, and
// runs the tests that have to notice. It fails when one is not noticed.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// testTimeout bounds the tests of one bug, some of which make a test hang.
const testTimeout = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries the bugs whose names hold one of the words; all without words.
func run(ctx context.Context, words []string) (err error) {
	dir, err := os.MkdirTemp("", "commons-mutants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyTree(ctx, dir); err != nil {
		return err
	}
	var tried int
	var missed []error
	for i := range bugs {
		if !chosen(bugs[i].name, words) {
			continue
		}
		tried++
		start := time.Now()
		if err := bugs[i].try(ctx, dir); err != nil {
			missed = append(missed, fmt.Errorf("%s: %w", bugs[i].name, err))
			fmt.Printf("MISSED  %s (%s): %v\n", bugs[i].name, bugs[i].because, err)
			continue
		}
		fmt.Printf("caught  %s, in %.0f s\n", bugs[i].name, time.Since(start).Seconds())
	}
	if tried == 0 {
		return fmt.Errorf("no bug is called %q", words)
	}
	fmt.Printf("%d of %d known bugs caught\n", tried-len(missed), tried)
	return errors.Join(missed...)
}

func chosen(name string, words []string) bool {
	for _, w := range words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return len(words) == 0
}

// copyTree copies the working tree, without what git ignores.
func copyTree(ctx context.Context, dir string) error {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil { //nolint:gosec // below a directory of our own
			return err
		}
	}
	return nil
}

// try puts the bug into the tree in dir, runs the tests, and takes it out again.
// It returns nil when they failed, as they have to.
func (b *bug) try(ctx context.Context, dir string) (err error) {
	before := map[string][]byte{}
	defer func() {
		for path, data := range before {
			err = errors.Join(err, os.WriteFile(path, data, 0o644)) //nolint:gosec // as it was
		}
	}()
	for _, e := range b.edits {
		path := filepath.Join(dir, e.file)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if before[path] == nil {
			before[path] = data
		}
		changed, err := e.apply(data)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, changed, 0o644); err != nil { //nolint:gosec // a source file
			return err
		}
	}
	if out, err := goTest(ctx, dir, b.pkg, "^$"); err != nil {
		return fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	out, err := goTest(ctx, dir, b.pkg, b.run)
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &failed):
		return nil
	case err != nil:
		return err
	case bytes.Contains(out, []byte("no tests to run")):
		return fmt.Errorf("%s has no test %s", b.pkg, b.run)
	}
	return fmt.Errorf("the tests %s of %s pass", b.run, b.pkg)
}

// apply returns data with the edit made.
func (e *edit) apply(data []byte) ([]byte, error) {
	if n := bytes.Count(data, []byte(e.was)); n != 1 {
		return nil, fmt.Errorf("%s holds %q %d times, and not once", e.file, e.was, n)
	}
	return bytes.Replace(data, []byte(e.was), []byte(e.is), 1), nil
}

func goTest(ctx context.Context, dir, pkg, run string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-run", run, pkg)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}
