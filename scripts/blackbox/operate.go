package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const manualFile = "docs/operating.md"

// commandsPort is the private port of the first node in the manual's examples.
const commandsPort = 7100

// operatorCommands runs the manual's commands for operators as they are written,
// but for names of files, addresses and nodes.
func operatorCommands(_ *bench, c *cluster) error {
	if err := c.operateSection("Commands for operators"); err != nil {
		return err
	}
	return c.waitVoters()
}

// operateSection runs the examples in a section of docs/operating.md.
func (c *cluster) operateSection(title string) error {
	manual, err := os.ReadFile(manualFile)
	if err != nil {
		return err
	}
	blocks := indented(string(manual), "\n## "+title+"\n")
	if len(blocks) == 0 {
		return fmt.Errorf("%s has no examples under %q", manualFile, title)
	}
	for _, block := range blocks {
		if out, err := c.operate(block); err != nil {
			return fmt.Errorf("a command fails: %w\n%s", err, out)
		}
	}
	return nil
}

// operate runs a script of commands with the examples' names replaced.
func (c *cluster) operate(script string) (string, error) {
	for i, p := range c.nodes {
		script = strings.ReplaceAll(script, "127.0.0.1:"+strconv.Itoa(commandsPort+i), p.private)
	}
	script = strings.NewReplacer("bin/commons ", c.bench.binary+" ", "data/secret", c.secret, "data/", c.dir+"/",
		"transfer-leader b", "transfer-leader "+c.nodes[1].name).Replace(script)
	cmd := exec.CommandContext(c.bench.ctx, "bash", "-euxo", "pipefail", "-c", script)
	cmd.Env = cleanEnvironment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// nodeThatLeft lets a node leave and join again without its data.
func nodeThatLeft(b *bench, c *cluster) error {
	victim := c.nodes[len(c.nodes)-1]
	env := []string{"COMMONS_CLUSTER_ADDR=" + victim.private, "COMMONS_SECRET_FILE=" + c.secret}
	code, out, errs, err := b.command(env, "leave", "--json")
	if err != nil {
		return err
	}
	var left struct{ ID string }
	if err := json.Unmarshal([]byte(out), &left); err != nil || code != 0 || left.ID == "" {
		return fmt.Errorf("leave: exit code %d, %s%s", code, out, errs)
	}
	<-victim.gone
	const exitLeft = 3 // service managers do not start it again
	if code := victim.cmd.ProcessState.ExitCode(); code != exitLeft {
		return fmt.Errorf("the node that left ended with exit code %d\n%s", code, victim.logTail())
	}
	if err := os.RemoveAll(victim.dir); err != nil {
		return err
	}
	if err := victim.start(); err != nil {
		return err
	}
	if err := c.waitReady(replaceTimeout, victim); err != nil {
		return err
	}
	return c.waitVoters()
}

// secretRotated runs the manual's rotation of the secret under load.
func secretRotated(_ *bench, c *cluster) error {
	l := c.startLoad("secret-rotated", false)
	defer l.cancel()
	if err := l.waitForMore(); err != nil {
		return err
	}
	before, err := os.ReadFile(c.secret)
	if err != nil {
		return err
	}
	if err := c.operateSection("The secret"); err != nil {
		return err
	}
	after, err := os.ReadFile(c.secret)
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
func backupRestored(b *bench, c *cluster) error {
	l := c.startLoad("backup", false)
	defer l.cancel()
	if err := l.waitForMore(); err != nil {
		return err
	}
	answer, err := c.nodes[0].publishJSON(http.StatusCreated, map[string]any{"body": "before the backup", "channel": "restored"})
	if err != nil {
		return err
	}
	if err := c.operateSection("Backup without containers"); err != nil {
		return err
	}
	if err := l.end(); err != nil {
		return err
	}
	restored, err := b.newCluster("restored")
	if err != nil {
		return err
	}
	p := restored.nodes[0]
	p.args = slices.Clone(p.args[:slices.Index(p.args, "--bootstrap-expect")])
	for flag, value := range map[string]string{"--node-id": "d", "--data-dir": filepath.Join(c.dir, "restored"), "--secret-file": c.secret} {
		p.args[slices.Index(p.args, flag)+1] = value
	}
	if err := p.start(); err != nil {
		return err
	}
	if err := restored.waitReady(readyTimeout, p); err != nil {
		return err
	}
	entries, err := p.list(0, url.Values{"channel": {"restored"}})
	if err != nil {
		return err
	}
	if len(entries) != 1 || entries[0].ID != answer.Entry.ID {
		return fmt.Errorf("the restored node has %v, want %s", entries, answer.Entry.ID)
	}
	return p.terminate()
}
