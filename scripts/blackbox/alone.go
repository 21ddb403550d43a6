package main

import (
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

// commandLine checks the commands that need no cluster.
func commandLine(r *harness.Run) {
	code, out, _ := r.Command(nil, "version")
	if code != 0 || !strings.HasPrefix(out, "commons ") {
		harness.Failf("version: exit code %d, %q", code, out)
	}
	code, _, errs := r.Command(
		[]string{"COMMONS_LEASE=soon", "COMMONS_BOOTSTRAP_EXPECT=0"},
		"serve", "--data-dir", r.Path("never"), "--http-addr", "nowhere", "--heartbeat", "abc", "--node-id", "a/b",
	)
	for _, flag := range []string{"--lease", "--bootstrap-expect", "--http-addr", "--heartbeat", "--node-id"} {
		if !strings.Contains(errs, "- "+flag) {
			harness.Failf("serve with a bad configuration does not complain of %s:\n%s", flag, errs)
		}
	}
	if code != 2 {
		harness.Failf("serve with a bad configuration: exit code %d, want 2", code)
	}
	if code, _, _ = r.Command(nil, "health", "--url", "http://127.0.0.1:1"); code != 1 {
		harness.Failf("health of no node: exit code %d, want 1", code)
	}
}

// guardedDirectory starts a second node on the data of the first, and a node of
// another name.
func guardedDirectory(r *harness.Run) {
	c := r.NewCluster("guarded", clusterSize)
	owner, intruder := c.Nodes[0], c.Nodes[1]
	for _, p := range c.Nodes {
		p.Alone()
	}
	owner.Start()
	harness.Must(c.WaitReady(harness.ReadyTimeout, owner))
	fails := func(reason string) {
		code, _, errs := r.Command(nil, intruder.Args()...)
		if code == 0 || !strings.Contains(errs, owner.Dir) {
			harness.Failf("%s: exit code %d, which should be an error that names the directory:\n%s", reason, code, errs)
		}
	}
	intruder.Flags["node-id"], intruder.Flags["data-dir"] = owner.Name, owner.Dir
	fails("a second process on a data directory")
	owner.Terminate()
	intruder.Flags["node-id"] = "another"
	fails("another name than the data directory's")
}
