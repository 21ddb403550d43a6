package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/commons-cluster/commons/scripts/harness"
)

// nodeThatLeft lets a node leave and join again without its data.
func nodeThatLeft(c *cluster) error {
	victim := c.Nodes[len(c.Nodes)-1]
	env := []string{"COMMONS_CLUSTER_ADDR=" + victim.Private, "COMMONS_SECRET_FILE=" + c.Secret}
	code, out, errs, err := c.Run.Command(env, "leave", "--json")
	if err != nil {
		return err
	}
	var left struct{ ID string }
	if err := json.Unmarshal([]byte(out), &left); err != nil || code != 0 || left.ID == "" {
		return fmt.Errorf("leave: exit code %d, %s%s", code, out, errs)
	}
	const exitLeft = 3 // service managers do not start it again
	if code, err := victim.Wait(); err != nil || code != exitLeft {
		return errors.Join(err, fmt.Errorf("the node that left ended with exit code %d\n%s", code, victim.LogTail()))
	}
	if err := os.RemoveAll(victim.Dir); err != nil {
		return err
	}
	if err := victim.Start(); err != nil {
		return err
	}
	if err := c.WaitReady(harness.ReplaceTimeout, victim); err != nil {
		return err
	}
	return c.WaitVoters()
}

// secretRotated runs the manual's rotation of the secret under load.
func secretRotated(c *cluster) error {
	l := c.startLoad("secret-rotated", false)
	defer l.Stop()
	if err := l.waitForMore(); err != nil {
		return err
	}
	before, err := os.ReadFile(c.Secret)
	if err != nil {
		return err
	}
	if err := c.operateSection("The secret"); err != nil {
		return err
	}
	after, err := os.ReadFile(c.Secret)
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		return errors.New("the secret is the former one")
	}
	if err := l.waitForMore(); err != nil {
		return err
	}
	return l.end()
}

// backupRestored runs the manual's examples of a backup under load, and starts
// the node that they restore: a cluster of its own with everything in it that was
// acknowledged before.
func backupRestored(c *cluster) error {
	l := c.startLoad("backup", false)
	defer l.Stop()
	if err := l.waitForMore(); err != nil {
		return err
	}
	answer, err := c.Nodes[0].Publish(nil, map[string]any{"body": "before the backup", "channel": "restored"}, http.StatusCreated)
	if err != nil {
		return err
	}
	if err := c.operateSection("Backup without containers"); err != nil {
		return err
	}
	if err := l.end(); err != nil {
		return err
	}
	restored, err := c.bench.newCluster("restored")
	if err != nil {
		return err
	}
	p := restored.Nodes[0]
	p.Alone()
	p.Flags["node-id"], p.Flags["data-dir"], p.Flags["secret-file"] = "d", filepath.Join(c.Dir, "restored"), c.Secret
	if err := p.Start(); err != nil {
		return err
	}
	if err := restored.WaitReady(harness.ReadyTimeout, p); err != nil {
		return err
	}
	entries, err := p.List(0, url.Values{"channel": {"restored"}})
	if err != nil {
		return err
	}
	if len(entries) != 1 || entries[0].ID != answer.Entry.ID {
		return fmt.Errorf("the restored node has %v, want %s", entries, answer.Entry.ID)
	}
	return p.Terminate()
}
