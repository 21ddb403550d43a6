package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

// commandLine checks the commands that need no cluster.
func commandLine(b *bench) error {
	code, out, _, err := b.run.Command(nil, "version")
	if err != nil {
		return err
	}
	if code != 0 || !strings.HasPrefix(out, "commons ") {
		return fmt.Errorf("version: exit code %d, %q", code, out)
	}
	code, _, errs, err := b.run.Command(
		[]string{"COMMONS_LEASE=soon", "COMMONS_BOOTSTRAP_EXPECT=0"},
		"serve", "--data-dir", b.run.Path("never"), "--http-addr", "nowhere", "--heartbeat", "abc", "--node-id", "a/b",
	)
	if err != nil {
		return err
	}
	for _, flag := range []string{"--lease", "--bootstrap-expect", "--http-addr", "--heartbeat", "--node-id"} {
		if !strings.Contains(errs, "- "+flag) {
			return fmt.Errorf("serve with a bad configuration does not complain of %s:\n%s", flag, errs)
		}
	}
	if code != 2 {
		return fmt.Errorf("serve with a bad configuration: exit code %d, want 2", code)
	}
	code, _, _, err = b.run.Command(nil, "health", "--url", "http://127.0.0.1:1")
	if err == nil && code != 1 {
		err = fmt.Errorf("health of no node: exit code %d, want 1", code)
	}
	return err
}

// oneNodeGrows starts one node alone, uses it, and lets two others join.
func oneNodeGrows(b *bench) error {
	c, err := b.newCluster("grows")
	if err != nil {
		return err
	}
	first := c.Nodes[0]
	first.Alone()
	if err := first.Start(); err != nil {
		return err
	}
	if err := c.WaitReady(harness.ReadyTimeout, first); err != nil {
		return err
	}
	answer, err := first.Publish(nil, map[string]any{"body": "alone at first", "channel": "grows"}, http.StatusCreated)
	if err != nil {
		return err
	}
	for _, p := range c.Nodes[1:] {
		p.Flags["bootstrap-expect"] = "1" // with --join this never forms a cluster of its own
		if err := p.Start(); err != nil {
			return err
		}
	}
	if err := c.WaitReady(harness.ReplaceTimeout, c.Nodes...); err != nil {
		return err
	}
	if err := c.WaitVoters(); err != nil {
		return err
	}
	for _, p := range c.Nodes {
		entries, err := p.List(answer.Index, url.Values{"channel": {"grows"}})
		if err != nil {
			return err
		}
		if len(entries) != 1 || entries[0].ID != answer.Entry.ID {
			return fmt.Errorf("%s has %v, want the entry published before it joined", p.Name, entries)
		}
	}
	return c.Terminate()
}

// guardedDirectory starts a second node on the data of the first, and a node of
// another name.
func guardedDirectory(b *bench) error {
	c, err := b.newCluster("guarded")
	if err != nil {
		return err
	}
	owner, intruder := c.Nodes[0], c.Nodes[1]
	for _, p := range c.Nodes {
		p.Alone()
	}
	if err := owner.Start(); err != nil {
		return err
	}
	if err := c.WaitReady(harness.ReadyTimeout, owner); err != nil {
		return err
	}
	refused := func(why string) error {
		code, _, errs, err := b.run.Command(nil, intruder.Args()...)
		if err != nil {
			return err
		}
		if code == 0 || !strings.Contains(errs, owner.Dir) {
			return fmt.Errorf("%s: exit code %d, which should be an error that names the directory:\n%s", why, code, errs)
		}
		return nil
	}
	intruder.Flags["node-id"], intruder.Flags["data-dir"] = owner.Name, owner.Dir
	if err := refused("a second process on a data directory"); err != nil {
		return err
	}
	if err := owner.Terminate(); err != nil {
		return err
	}
	intruder.Flags["node-id"] = "another"
	return refused("another name than the data directory's")
}
