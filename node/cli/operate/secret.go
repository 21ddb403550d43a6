package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/loop"
)

type secretCommand struct {
	Generate secretGenerateCommand `cmd:"" help:"Print a new cluster secret, or make a secret file with one."`
	Rotate   secretRotateCommand   `cmd:"" help:"Replace the secret of a running cluster, step by step."`
}

type secretGenerateCommand struct {
	Keep string `name:"keep" placeholder:"FILE" help:"Write the secret to this file instead, readable by its owner only; an existing file stays as it is."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (c *secretGenerateCommand) Run(std terminal.Streams) error {
	if c.Keep == "" {
		secret := cluster.NewSecret()
		return terminal.Show(std.Out, c.JSON, map[string]string{"secret": secret}, secret)
	}
	made, err := cluster.KeepSecretFile(c.Keep)
	if err != nil {
		return err
	}
	said := "kept the secret that is in " + c.Keep
	if made {
		said = "wrote a new secret to " + c.Keep + "; every node needs the same one"
	}
	return terminal.Show(std.Out, c.JSON, map[string]any{"file": c.Keep, "made": made}, said)
}

const (
	rotateInterval = time.Second // the pause between two calls that ask the nodes for their secrets
	// ownFileAfter is how long after a change a node that has not read it has another file.
	ownFileAfter = 2*cluster.SecretReloadInterval + rotateInterval
	// rotatingSuffix is the suffix of the file that exists beside the secret file during a
	// rotation. Its lines are the public names of the new and of the former secret.
	rotatingSuffix = ".rotating"
)

type secretRotateCommand struct {
	ClusterAddr []string      `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" sep:"," default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of any running node; of several, the first that answers is asked."`
	SecretFile  string        `name:"secret-file" env:"COMMONS_SECRET_FILE" required:"" placeholder:"FILE" help:"The secret file to change."`
	Timeout     time.Duration `name:"timeout" default:"15m" placeholder:"DURATION" help:"How long to wait for the nodes in all. Run again, the command continues where it ended."`
	PushCommand string        `name:"push-command" placeholder:"COMMAND" help:"Copies the file to a node that has its own, after each change: a shell command that gets FILE, NODE (the node's name) and HOST (of its private port) in its environment."`
	JSON        bool          `name:"json" help:"Print JSON, one line for each step."`
}

type rotationNews struct {
	Done    bool     `json:"done"`
	Message string   `json:"message"`
	Waiting []string `json:"waiting"` // server ids
	// FormerSecretFile holds the former secret, which backups made before BackupsBefore
	// need. Both are empty until the rotation is done.
	FormerSecretFile string `json:"formerSecretFile,omitempty"`
	BackupsBefore    int64  `json:"backupsBefore,omitempty"` // milliseconds since the epoch
}

// rotation is the replacement of a secret by another.
type rotation struct {
	file    []string // public names in the local file, the one in use first
	next    string   // public name of the new secret, empty before it is added
	former  string   // public name of the secret that it replaces
	servers []admin.Server
}

type step int

const (
	stepAdd step = iota
	stepWaitAccepted
	stepSwap
	stepWaitUsed
	stepWaitSealed
	stepDrop
	stepWaitDropped
	stepDone
)

// decide returns the next step and the servers that it waits for.
func (r *rotation) decide() (next step, waiting []admin.Server) {
	lacking := func(has func(*admin.NodeReport) bool) []admin.Server {
		return slices.DeleteFunc(slices.Clone(r.servers), func(s admin.Server) bool {
			return s.Report != nil && has(s.Report)
		})
	}
	accepts := lacking(func(n *admin.NodeReport) bool { return slices.Contains(n.Secrets, r.next) })
	uses := lacking(func(n *admin.NodeReport) bool { return n.Secrets[0] == r.next })
	sealed := lacking(func(n *admin.NodeReport) bool { return n.SealedUnder == r.next })
	alone := lacking(func(n *admin.NodeReport) bool { return slices.Equal(n.Secrets, []string{r.next}) })
	switch {
	case r.next == "":
		return stepAdd, nil
	case len(r.file) == 1 && len(alone) == 0:
		return stepDone, nil
	case len(r.file) == 1:
		return stepWaitDropped, alone
	case len(accepts) > 0:
		return stepWaitAccepted, accepts
	case r.file[0] != r.next:
		return stepSwap, nil
	case len(uses) > 0:
		return stepWaitUsed, uses
	case len(sealed) > 0:
		return stepWaitSealed, sealed
	}
	return stepDrop, nil
}

// Run rotates the secret. It continues an earlier run that was interrupted.
func (c *secretRotateCommand) Run(ctx context.Context, std terminal.Streams) error {
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	missing, said := "the nodes did not answer", map[string]bool{}
	say := func(news rotationNews) error {
		if news.Message == "" || said[news.Message] {
			return nil
		}
		said[news.Message] = true
		if c.JSON {
			return json.NewEncoder(std.Out).Encode(news)
		}
		_, err := fmt.Fprintln(std.Out, news.Message)
		return err
	}
	copied, changed := map[string]bool{}, time.Now() // servers that the file was copied to, or was to be, since it changed
	for {
		r, err := c.look(bounded)
		if err != nil && bounded.Err() == nil {
			return err
		}
		next, waiting := r.decide()
		news, waits := rotationNews{Message: stepTexts[next], Waiting: idsOf(waiting)}, true
		switch {
		case bounded.Err() != nil:
		case next == stepWaitAccepted, next == stepWaitUsed, next == stepWaitDropped:
			missing = waitingText(c.SecretFile, waiting)
			err = c.push(bounded, std, waiting, copied)
			news.Message = waitingText(c.SecretFile, toTell(waiting, copied, time.Since(changed)))
			err = errors.Join(err, say(news))
		case next == stepWaitSealed:
			news.Message = strings.TrimSuffix(news.Message+"; "+waitingText("", waiting), "; ")
			missing = news.Message
			err = say(news)
		case next == stepDone:
			c.sayDone(&news, r.former)
			return errors.Join(os.Remove(c.SecretFile+rotatingSuffix), say(news))
		default:
			err, waits = errors.Join(c.take(next), say(news)), false
			clear(copied)
			clear(said)
			changed = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted; run this again: it continues from here")
		case bounded.Err() != nil, err == nil && waits && !loop.Pause(bounded, rotateInterval):
			return fmt.Errorf("not done within %v: %s. Then run this again: it continues from here", c.Timeout, missing)
		case err != nil:
			return err
		}
	}
}

// toTell returns those of the servers that the operator is told about: those that do not answer, and,
// once, those that have files of their own, because they have not read the change for so long.
func toTell(waiting []admin.Server, copied map[string]bool, since time.Duration) (told []admin.Server) {
	for _, s := range waiting {
		switch {
		case s.Report == nil:
			told = append(told, s)
		case !copied[s.ID] && since > ownFileAfter:
			told, copied[s.ID] = append(told, s), true
		}
	}
	return told
}

// waitingText tells an operator how to make the servers follow: to start those that do not
// answer, and to copy the file to the others. file is "" if they need no copy.
func waitingText(file string, waiting []admin.Server) string {
	var silent, behind []string
	for _, s := range waiting {
		if s.Report == nil {
			silent = append(silent, s.ID)
		} else {
			behind = append(behind, s.ID)
		}
	}
	var texts []string
	if len(silent) > 0 {
		texts = append(texts, strings.Join(silent, ", ")+" does not answer: start it, or remove it with `commons raft remove-peer "+silent[0]+"`")
	}
	if len(behind) > 0 && file != "" {
		texts = append(texts, fmt.Sprintf("copy %s to %s: each has a file of its own (--push-command copies it)", file, strings.Join(behind, ", ")))
	}
	return strings.Join(texts, "; ")
}

// push runs the push command for each server that waits for the file and does not have it
// yet.
func (c *secretRotateCommand) push(ctx context.Context, std terminal.Streams, waiting []admin.Server, copied map[string]bool) error {
	for _, s := range waiting {
		if c.PushCommand == "" || s.Report == nil || copied[s.ID] {
			continue
		}
		host, _, err := net.SplitHostPort(s.Report.Private)
		if err != nil {
			return fmt.Errorf("the address of %s: %w", s.ID, err)
		}
		shell := exec.CommandContext(ctx, "sh", "-c", c.PushCommand) //nolint:gosec // the operator's own command
		shell.Env = append(os.Environ(), "FILE="+c.SecretFile, "NODE="+s.Report.Name, "HOST="+host)
		shell.Stdout, shell.Stderr = std.Err, std.Err
		if err := shell.Run(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("--push-command failed for %s: %w; correct it and run this again: it continues from here", s.Report.Name, err)
		}
		copied[s.ID] = true
	}
	return nil
}

var stepTexts = map[step]string{
	stepAdd:        "added a new secret to the file; every node must accept it first",
	stepSwap:       "every node accepts the new secret; it is now first in the file, so that it is used",
	stepWaitSealed: "every node uses the new secret; waiting for the leader to seal the data key under it",
	stepDrop:       "the data key is sealed under the new secret; removed the former one from the file",
}

// sayDone describes the end of a rotation. No node needs the former secret any more, but
// all earlier backups do.
func (c *secretRotateCommand) sayDone(news *rotationNews, former string) {
	now := time.Now().UTC().Truncate(time.Second).Add(time.Second)
	news.Done, news.BackupsBefore, news.FormerSecretFile = true, now.UnixMilli(), cluster.FormerSecretFile(c.SecretFile, former)
	news.Message = fmt.Sprintf("done: every node has only the new secret. Every backup made before %s needs the former secret, %s, to be restored: it is kept in %s "+
		"(`commons snapshot restore --old-secret`). Make a backup now, and delete that file when you have deleted the backups from before",
		now.Format(time.RFC3339), former, news.FormerSecretFile)
}

func (c *secretRotateCommand) look(ctx context.Context) (r rotation, err error) {
	file, err := cluster.OpenSecretFile(c.SecretFile)
	if err != nil {
		return r, &config.Error{Problems: []string{err.Error()}}
	}
	r.file = file.IDs()
	if r.next, r.former, err = c.rotating(); err != nil {
		return r, err
	}
	if !slices.Contains(r.file, r.next) {
		r.next = "" // noted, but never added
	}
	if r.next == "" && len(r.file) > 1 {
		return r, fmt.Errorf("%s holds two secrets, and no rotation is known here: finish the one that was started elsewhere, or remove the line that is not in use on every node", c.SecretFile)
	}
	t := target{nodes: nodes{c.ClusterAddr, c.SecretFile}, Timeout: c.Timeout}
	report, err := ask[admin.ClusterReport](ctx, &t, admin.PathCluster, nil)
	r.servers = report.Servers
	return r, err
}

// rotating returns the public names of the secrets of a rotation under way.
func (c *secretRotateCommand) rotating() (next, former string, err error) {
	data, err := os.ReadFile(c.SecretFile + rotatingSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	next, former, _ = strings.Cut(strings.TrimSpace(string(data)), "\n")
	return next, former, err
}

func (c *secretRotateCommand) take(next step) error {
	file, err := cluster.OpenSecretFile(c.SecretFile)
	if err != nil {
		return err
	}
	switch next {
	case stepAdd:
		return file.Add(func(id string) error {
			return cluster.WriteFileAtomic(c.SecretFile+rotatingSuffix, []byte(id+"\n"+file.IDs()[0]+"\n"))
		})
	case stepSwap:
		return file.Swap()
	default:
		return file.Drop()
	}
}
