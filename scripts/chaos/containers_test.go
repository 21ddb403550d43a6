package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/harness"
)

// engine is a container engine with one container. It records its commands. The answer to a
// command is in the file that is named after its first word.
const engine = `#!/bin/sh
cd "$(dirname "$0")" || exit
echo "$*" >>told
cut -d" " -f5 /proc/$$/stat >group
cat "$1" 2>/dev/null || true
`

// withEngine also returns what the engine was told since the last call, and what writes
// a file of it.
func withEngine(t *testing.T) (b *testbed, told func() string, write func(name, text string)) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	write = func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	write("docker", engine)
	write("ps", "0123\n")
	write("inspect", "10.1.2.3\n")
	told = func() string {
		text, err := os.ReadFile(filepath.Join(dir, "told"))
		must.Do(t, errors.Join(err, os.Remove(filepath.Join(dir, "told"))))
		return string(text)
	}
	return &testbed{undo: map[string]func() error{}, containers: &containers{hosts: map[string]string{}}}, told, write
}

// TestContainersAreLeftAsTheyWere: each fault is undone, at the latest when the run ends.
func TestContainersAreLeftAsTheyWere(t *testing.T) {
	b, told, _ := withEngine(t)
	nodes := []*harness.Node{{Name: "node1"}}
	for name, want := range map[string][2]string{
		"kill":  {"kill --signal KILL 0123", "start 0123"},
		"pause": {"pause 0123", "unpause 0123"},
	} {
		for _, end := range []func(){func() { containerFaults[name].end(b, nodes) }, b.release} {
			containerFaults[name].begin(b, nodes)
			check.Contains(t, told(), want[0], "%s begins", name)
			end()
			check.Contains(t, told(), want[1], "%s ends", name)
			check.Empty(t, b.undo, "%s is still to be undone", name)
		}
	}
}

// TestProjectIsNew: a run takes away no container and no volume that it did not make.
func TestProjectIsNew(t *testing.T) {
	b, told, write := withEngine(t)
	b.containers.name = "mine"
	for _, tc := range []struct {
		containers, volumes string
		ok                  bool
	}{{"", "", true}, {"0123", "", false}, {"", "mine_data", false}} {
		write("ps", tc.containers)
		write("volume", tc.volumes)
		if err := b.containers.unused(t.Context()); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc, err)
		}
		if got := told(); strings.Count(got, "label=com.docker.compose.project=mine\n") != strings.Count(got, "\n") {
			t.Errorf("%+v asks for\n%s", tc, got)
		}
	}
}

// TestNothingSecretStays: the copy of the cluster's secret ends with the run.
func TestNothingSecretStays(t *testing.T) {
	b := &testbed{run: harness.NewRun(t.Context(), "", t.TempDir()), containers: &containers{}}
	must.Do(t, os.WriteFile(b.secret(), nil, 0o600))
	b.close()
	check.Err(t, check.Last(os.Stat(b.secret())), os.ErrNotExist, "the copy of the secret stays")
}

// TestCtrlCIsNotForTheEngine: its commands are in a process group of their own.
func TestCtrlCIsNotForTheEngine(t *testing.T) {
	b, _, _ := withEngine(t)
	group, err := b.containers.docker("group")
	if err != nil || group == "" || group == strconv.Itoa(syscall.Getpgrp()) {
		t.Errorf("group %q, %v", group, err)
	}
}
