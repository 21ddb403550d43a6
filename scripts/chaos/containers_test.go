package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/harness"
)

// engine is a container engine with one container. It records its commands. A command
// with the words of the file "fails" fails. The answer to others is in the file that is
// named after their first word.
const engine = `#!/bin/sh
cd "$(dirname "$0")" || exit
echo "$*" >>told
cut -d" " -f5 /proc/$$/stat >group
if [ -e fails ]; then
  case "$*" in *"$(cat fails)"*) exit 1 ;; esac
fi
case "$*" in
  "network disconnect"*) touch unplugged ;;
  "network connect"*) rm -f unplugged ;;
  *.Networks*) [ ! -e unplugged ] || exit 0 ;;
  *.Memory*) cat memory; exit ;;
  *.CpuQuota*) cat cpus; exit ;;
esac
cat "$1" 2>/dev/null || true
`

// withEngine also returns what the engine was told since the last call, and what writes
// a file of it.
func withEngine(t *testing.T) (b *bench, told func() string, write func(name, text string)) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	write = func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	write("docker", engine)
	write("ps", "0123\n")
	write("inspect", "10.1.2.3 7\n")
	write("memory", "1000 2000\n")
	write("cpus", "50000 20000 0\n")
	write("info", "9000\n")
	write("network", "10.1.2.3/24 10.1.2.201/24\n")
	p := &containers{project: &project{}, undo: map[string]func() error{}, hosts: map[string]string{"node2": "10.1.2.200"}}
	told = func() string {
		text, err := os.ReadFile(filepath.Join(dir, "told"))
		must.Do(t, errors.Join(err, os.Remove(filepath.Join(dir, "told"))))
		return string(text)
	}
	return &bench{o: &options{network: contained}, network: p}, told, write
}

// TestContainersAreLeftAsTheyWere: each fault is undone, at the latest when the run ends.
func TestContainersAreLeftAsTheyWere(t *testing.T) {
	b, told, _ := withEngine(t)
	p := b.network.(*containers)
	nodes := []*harness.Node{{Name: "node1"}}
	for name, want := range map[string][2]string{
		"kill":      {"kill --signal KILL 0123", "start 0123"},
		"terminate": {"stop 0123", "start 0123"},
		"pause":     {"pause 0123", "unpause 0123"},
		"starve":    {"update --cpu-period 100000 --cpu-quota 3000 0123", "update --cpu-period 50000 --cpu-quota 20000 0123"},
		"squeeze":   {"update --memory 48m --memory-swap 48m 0123", "update --memory 1000 --memory-swap 2000 0123"},
		"isolate":   {"network disconnect", "network connect --alias node1 --ip 10.1.2.3"},
		"move":      {"network connect --alias node1 --ip 10.1.2.20", "start 0123"},
	} {
		for _, end := range []func(){func() { containerFaults[name].end(b, nodes) }, p.close} {
			containerFaults[name].begin(b, nodes)
			if got := told(); !strings.Contains(got, want[0]) {
				t.Errorf("%s begins with\n%s", name, got)
			}
			end()
			if got := told(); !strings.Contains(got, want[1]) {
				t.Errorf("%s ends with\n%s", name, got)
			}
			if len(p.undo) > 0 {
				t.Errorf("%s is still to be undone", name)
			}
		}
	}
}

// TestLimitsAreRestored: no limit is restored, too. The engine does not accept 0 for it.
func TestLimitsAreRestored(t *testing.T) {
	for _, tc := range []struct{ fault, file, was, set, restored string }{
		{"squeeze", "memory", "0 0", "--memory 48m --memory-swap 48m", "--memory 9000 --memory-swap -1"},
		{"squeeze", "memory", "1000 -1", "--memory 48m --memory-swap 48m", "--memory 1000 --memory-swap -1"},
		{"starve", "cpus", "0 0 0", "--cpu-period 100000 --cpu-quota 3000", "--cpu-period 100000 --cpu-quota -1"},
		{"starve", "cpus", "0 0 1500000000", "--cpus 0.03", "--cpus 1.5"},
	} {
		b, told, write := withEngine(t)
		write(tc.file, tc.was)
		nodes := []*harness.Node{{Name: "node1"}}
		containerFaults[tc.fault].begin(b, nodes)
		if got := told(); !strings.Contains(got, "update "+tc.set+" 0123\n") {
			t.Errorf("%+v begins with\n%s", tc, got)
		}
		containerFaults[tc.fault].end(b, nodes)
		if got := told(); !strings.Contains(got, "update "+tc.restored+" 0123\n") {
			t.Errorf("%+v ends with\n%s", tc, got)
		}
	}
	b, told, write := withEngine(t)
	write("memory", "none")
	if err := harness.Try(func() { containerFaults["squeeze"].begin(b, []*harness.Node{{Name: "node1"}}) }); err == nil || strings.Contains(told(), "kill") {
		t.Errorf("a node whose limits are not known is squeezed: %v", err)
	}
}

// TestHalfOfAFaultIsUndone: a node is back in its network, wherever taking it out of there
// failed, and is not connected twice.
func TestHalfOfAFaultIsUndone(t *testing.T) {
	for _, tc := range []struct{ fault, fails, undone string }{
		{"move", "network connect", "network connect --alias node1 --ip 10.1.2.3"},
		{"move", "network disconnect", "start 0123"},
		{"isolate", "{{.Id}}", ""},
		{"isolate", "network disconnect", "inspect"},
	} {
		b, told, write := withEngine(t)
		write("fails", tc.fails)
		if err := harness.Try(func() { containerFaults[tc.fault].begin(b, []*harness.Node{{Name: "node1"}}) }); err == nil {
			t.Errorf("%s with an engine that fails at %s is good", tc.fault, tc.fails)
		}
		began := told()
		write("fails", "nothing")
		write("told", "")
		b.network.close()
		if got := told(); !strings.Contains(got, tc.undone) || tc.fails != "network connect" && strings.Contains(got, "network connect") {
			t.Errorf("%s with an engine that fails at %s began with\n%sand is undone with\n%s", tc.fault, tc.fails, began, got)
		}
	}
}

// TestProjectIsNew: a run takes away no container and no volume that it did not make.
func TestProjectIsNew(t *testing.T) {
	b, told, write := withEngine(t)
	p := b.network.(*containers)
	p.name = "mine"
	write("network", "")
	for _, tc := range []struct {
		containers, volumes string
		ok                  bool
	}{{"", "", true}, {"0123", "", false}, {"", "mine_data", false}} {
		write("ps", tc.containers)
		write("volume", tc.volumes)
		if err := p.unused(t.Context()); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc, err)
		}
		if got := told(); strings.Count(got, "label=com.docker.compose.project=mine\n") != strings.Count(got, "\n") {
			t.Errorf("%+v asks for\n%s", tc, got)
		}
	}
}

// TestNothingSecretStays: the copy of the cluster's secret ends with the run.
func TestNothingSecretStays(t *testing.T) {
	b := &bench{run: harness.NewRun(t.Context(), "", t.TempDir()), network: &containers{project: &project{}}}
	must.Do(t, os.WriteFile(b.secret(), nil, 0o600))
	b.forget()
	if _, err := os.Stat(b.secret()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of the secret stays: %v", err)
	}
}

// TestFreeAddresses: no other container of the network has them, and they do not run out
// while there is one.
func TestFreeAddresses(t *testing.T) {
	b, _, write := withEngine(t)
	p := b.network.(*containers)
	for i := range 2 * addressesToMove {
		address, err := p.free("net", "10.1.2.3")
		if want := fmt.Sprintf("10.1.2.%d", firstMoved+2+i%(addressesToMove-2)); err != nil || address != want { // the first two are taken
			t.Fatalf("%d: %s, %v, want %s", i, address, err, want)
		}
	}
	var all strings.Builder
	for i := range addressesToMove {
		fmt.Fprintf(&all, "10.1.2.%d/24 ", firstMoved+i)
	}
	write("network", all.String())
	if address, err := p.free("net", "10.1.2.3"); err == nil {
		t.Errorf("%s is free", address)
	}
}

// TestCtrlCIsNotForTheEngine: its commands are in a process group of their own.
func TestCtrlCIsNotForTheEngine(t *testing.T) {
	b, _, _ := withEngine(t)
	group, err := b.network.(*containers).docker("group")
	if err != nil || group == "" || group == strconv.Itoa(syscall.Getpgrp()) {
		t.Errorf("group %q, %v", group, err)
	}
}
