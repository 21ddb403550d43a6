package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// commandLine checks the commands that need no cluster.
func commandLine(b *bench, _ *cluster) error {
	code, out, _, err := b.command(nil, "version")
	if err != nil {
		return err
	}
	if code != 0 || !strings.HasPrefix(out, "commons ") {
		return fmt.Errorf("version: exit code %d, %q", code, out)
	}
	code, _, errs, err := b.command(
		[]string{"COMMONS_LEASE=soon", "COMMONS_BOOTSTRAP_EXPECT=0"},
		"serve", "--data-dir", b.path("never"), "--http-addr", "nowhere", "--heartbeat", "abc", "--node-id", "a/b",
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
	code, _, _, err = b.command(nil, "health", "--url", "http://127.0.0.1:1")
	if err == nil && code != 1 {
		err = fmt.Errorf("health of no node: exit code %d, want 1", code)
	}
	return err
}

// oneNodeGrows starts one node alone, uses it, and lets two others join.
func oneNodeGrows(b *bench, _ *cluster) error {
	c, err := b.newCluster("grows")
	if err != nil {
		return err
	}
	first := c.nodes[0]
	joined := first.args
	at := slices.Index(joined, "--bootstrap-expect")
	first.args = slices.Concat(joined[:at], joined[at+4:]) // without --bootstrap-expect and --join
	if err := first.start(); err != nil {
		return err
	}
	if err := c.waitReady(readyTimeout, first); err != nil {
		return err
	}
	answer, err := first.publishJSON(http.StatusCreated, map[string]any{"body": "alone at first", "channel": "grows"})
	if err != nil {
		return err
	}
	for _, p := range c.nodes[1:] {
		at := slices.Index(p.args, "--bootstrap-expect") + 1
		p.args[at] = "1" // with --join this never forms a cluster of its own
		if err := p.start(); err != nil {
			return err
		}
	}
	if err := c.waitReady(replaceTimeout, c.nodes...); err != nil {
		return err
	}
	if err := c.waitVoters(); err != nil {
		return err
	}
	for _, p := range c.nodes {
		entries, err := p.list(answer.index, url.Values{"channel": {"grows"}})
		if err != nil {
			return err
		}
		if len(entries) != 1 || entries[0].ID != answer.Entry.ID {
			return fmt.Errorf("%s has %v, want the entry published before it joined", p.name, entries)
		}
	}
	return c.terminateAll()
}

// guardedDirectory starts a second node on the data of the first, and a node of
// another name.
func guardedDirectory(b *bench, _ *cluster) error {
	c, err := b.newCluster("guarded")
	if err != nil {
		return err
	}
	owner, intruder := c.nodes[0], c.nodes[1]
	for _, p := range c.nodes {
		at := slices.Index(p.args, "--bootstrap-expect")
		p.args = p.args[:at]
	}
	if err := owner.start(); err != nil {
		return err
	}
	if err := c.waitReady(readyTimeout, owner); err != nil {
		return err
	}
	refused := func(why string, args []string) error {
		code, _, errs, err := b.command(nil, args...)
		if err != nil {
			return err
		}
		if code == 0 || !strings.Contains(errs, owner.dir) {
			return fmt.Errorf("%s: exit code %d, which should be an error that names the directory:\n%s", why, code, errs)
		}
		return nil
	}
	same := slices.Clone(intruder.args)
	same[slices.Index(same, "--node-id")+1] = owner.name
	same[slices.Index(same, "--data-dir")+1] = owner.dir
	if err := refused("a second process on a data directory", same); err != nil {
		return err
	}
	if err := owner.terminate(); err != nil {
		return err
	}
	other := slices.Clone(same)
	other[slices.Index(other, "--node-id")+1] = "another"
	return refused("another name than the data directory's", other)
}
