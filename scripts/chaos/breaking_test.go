package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/harness"
)

// withDisk returns a testbed with one voter, which has a disk of its own.
func withDisk(t *testing.T) (*testbed, *harness.Node) {
	t.Helper()
	b := &testbed{o: &options{seed: 1}, links: &links{pids: map[string]int{}}, run: harness.NewRun(context.WithoutCancel(t.Context()), "true", t.TempDir()), disks: map[string]*disk{}, undo: map[string]func() error{}}
	c := b.run.NewCluster("disks", 1)
	b.nodes, b.voters = c.Nodes, c.Nodes
	t.Cleanup(b.takeDisks)
	t.Cleanup(b.release)
	b.giveDisks(t.Context())
	if b.noDisks != "" {
		t.Skip("no disks here: ", b.noDisks)
	}
	n := c.Nodes[0]
	must.Do(t, os.Mkdir(n.Dir, 0o700))
	return b, n
}

// TestDiskFails: a disk that fails keeps only synced data.
func TestDiskFails(t *testing.T) {
	b, n := withDisk(t)
	write := func(name string, sync bool) error {
		f, err := os.Create(filepath.Join(n.Dir, name))
		if err != nil {
			return err
		}
		_, err = f.WriteString("written")
		if sync {
			err = errors.Join(err, f.Sync())
		}
		return errors.Join(err, f.Close())
	}
	must.Do(t, errors.Join(write("synced", true), write("lost", false)))
	b.fail(n)
	check.Err(t, write("late", false), syscall.EIO, "a disk that failed")
	b.start(n) // a program that ends at once, for remount to kill
	b.remount(n)
	for name, want := range map[string]bool{"synced": true, "lost": false, "late": false} {
		if _, err := os.Stat(filepath.Join(n.Dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %t", name, err, want)
		}
	}
}

// TestDiskHangs: a write waits until the disk works again.
func TestDiskHangs(t *testing.T) {
	b, n := withDisk(t)
	b.hang(n)
	written := make(chan error)
	go func() { written <- os.WriteFile(filepath.Join(n.Dir, "file"), nil, 0o600) }()
	select {
	case err := <-written:
		t.Errorf("a disk that hangs has written: %v", err)
	case <-time.After(100 * time.Millisecond): // long enough for a write to pass by mistake
	}
	b.release()
	check.Err(t, <-written, nil, "written")
}

// TestWhatIsLeftOut: what would leave no majority, and what this machine cannot do.
func TestWhatIsLeftOut(t *testing.T) {
	n := []*harness.Node{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}, {Name: "n4"}}
	for _, tc := range []struct {
		what, fault string
		hard        bool
		of          *harness.Node
		change      func(b *testbed)
		forbidden   bool
	}{
		{"nothing else is broken", "kill", false, n[0], func(*testbed) {}, false},
		{"another one is down", "kill", false, n[0], func(b *testbed) { b.down["n2"] = true }, true},
		{"another one is down, and it is to be hard", "kill", true, n[0], func(b *testbed) { b.down["n2"] = true }, false},
		{"it is down already", "kill", true, n[0], func(b *testbed) { b.down["n1"] = true }, true},
		{"another one is down, and this one is only cut off", "deaf", false, n[0], func(b *testbed) { b.down["n2"] = true }, false},
		{"a disk was lost before", "replace", false, n[0], func(b *testbed) { b.spoiled = n[1] }, true},
		{"there are no disks", "hang disk", false, n[0], func(b *testbed) { b.noDisks = "no loop device" }, true},
	} {
		b := &testbed{o: &options{}, nodes: n, voters: n[:3], down: map[string]bool{}, weak: map[string]bool{}}
		tc.change(b)
		if why := b.forbids(&event{Fault: tc.fault, Hard: tc.hard}, faults[tc.fault], []*harness.Node{tc.of}); (why != "") != tc.forbidden {
			t.Errorf("%s of %s, and %s: %q", tc.fault, tc.of.Name, tc.what, why)
		}
	}
	b := &testbed{voters: n[:3], weak: map[string]bool{"n1": true, "n4": true}}
	for _, e := range []event{{Fault: "lead", Target: reader, Nodes: []string{"n4"}}, {Fault: "lead", Target: follower, Nodes: []string{"n1"}}, {Fault: "lead", Target: follower, Nodes: []string{"n2"}}} {
		i := int(e.Nodes[0][1] - '1')
		check.Equal(t, (b.forbids(&e, faults["lead"], n[i:i+1]) == ""), i == 1, "lead of %v", e.Nodes)
	}
	check.Equal(t, b.minority(), false, "one voter and the reader are too few")
	b.weak["n3"] = true
	if !b.minority() {
		t.Error("one voter of three is enough")
	}
}

// TestPercentile takes the value that so many do not exceed.
func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(i+1))
	}
	for p, want := range map[int]time.Duration{50: 50, 99: 99, 100: 100} {
		check.Equal(t, percentile(all, p), want, "percentile %d", p)
	}
	check.Equal(t, percentile(all[:3], 50), 2, "of three")
}

// TestFaultsAreShown: what docs/faults.md says shows a fault is there, for each of the
// faults that the cluster must survive.
func TestFaultsAreShown(t *testing.T) {
	text, err := os.ReadFile("../../docs/faults.md")
	must.Do(t, err)
	tests := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(found[1])] = true
		}
		return err
	})
	must.Do(t, err)
	_, table, _ := strings.Cut(string(text), "\n## Every fault, and what shows it\n")
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(table, -1) {
		if !tests[name] {
			t.Errorf("there is no %s", name)
		}
	}
	check.Equal(t, len(regexp.MustCompile(`\n\| \d+ \|`).FindAllString(table, -1)), 62, "faults, of which the cluster must survive each")
	for _, named := range regexp.MustCompile(`chaos: ([^;|]+?) *[;|]`).FindAllStringSubmatch(table, -1) {
		check.Contains(t, string(text), "\n| "+named[1]+" |", "the table of checks")
	}
	for _, quoted := range regexp.MustCompile("chaos (`[^:|;]+)").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`-][^`]*)`").FindAllStringSubmatch(quoted[1], -1) {
			if _, ok := scenarios[name[1]]; !ok {
				t.Errorf("there is no scenario %q", name[1])
			}
		}
	}
}
