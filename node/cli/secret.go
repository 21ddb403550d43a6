package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
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

func (c *secretGenerateCommand) Run(std streams) error {
	if c.Keep == "" {
		secret := cluster.NewSecret()
		return show(std.out, c.JSON, map[string]string{"secret": secret}, secret)
	}
	made, err := cluster.KeepSecretFile(c.Keep)
	if err != nil {
		return err
	}
	said := "kept the secret that is in " + c.Keep
	if made {
		said = "wrote a new secret to " + c.Keep + "; every node needs the same one"
	}
	return show(std.out, c.JSON, map[string]any{"file": c.Keep, "made": made}, said)
}

const (
	// rotateInterval is how often the nodes are asked whether they have followed.
	rotateInterval = time.Second
	// rotatingSuffix names the file beside the secret file that says, while a
	// rotation is under way, which secret is the new one and, on a second line, which
	// the former.
	rotatingSuffix = ".rotating"
	rotatingMode   = 0o600
)

type secretRotateCommand struct {
	ClusterAddr []string      `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" sep:"," default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of any running node; of several, the first that answers is asked."`
	SecretFile  string        `name:"secret-file" env:"COMMONS_SECRET_FILE" required:"" placeholder:"FILE" help:"The secret file to change."`
	Wait        time.Duration `name:"wait" default:"15m" placeholder:"DURATION" help:"How long to wait for the nodes at each step, while the file is copied to them."`
	JSON        bool          `name:"json" help:"Print JSON, one line for each step."`
}

// rotationNews is what --json prints of a step.
type rotationNews struct {
	Done    bool     `json:"done"`
	Message string   `json:"message"`
	Waiting []string `json:"waiting"` // server ids
	// FormerSecretFile holds the former secret, and BackupsBefore says which backups
	// need it; both when it is done.
	FormerSecretFile string `json:"formerSecretFile,omitempty"`
	BackupsBefore    int64  `json:"backupsBefore,omitempty"` // milliseconds since the epoch
}

// rotation is the replacement of a secret by another.
type rotation struct {
	file    []string // public names in the local file, the one in use first
	next    string   // public name of the new secret, "" before there is one
	former  string   // public name of the secret that it replaces
	servers []admin.Server
}

// step is what a rotation does next.
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

// decide returns the next step and the nodes that it waits for.
func (r *rotation) decide() (next step, waiting []string) {
	lacking := func(has func(*admin.NodeReport) bool) (ids []string) {
		for _, s := range r.servers {
			if s.Report == nil || !has(s.Report) {
				ids = append(ids, s.ID)
			}
		}
		return ids
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

// Run rotates the secret: it continues an earlier run that was interrupted.
func (c *secretRotateCommand) Run(ctx context.Context, std streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	deadline := time.Now().Add(c.Wait)
	said := ""
	say := func(news rotationNews) error {
		if news.Message == said {
			return nil
		}
		said = news.Message
		if c.JSON {
			return json.NewEncoder(std.out).Encode(news)
		}
		_, err := fmt.Fprintln(std.out, news.Message)
		return err
	}
	for {
		r, err := c.look(ctx)
		if err != nil {
			return err
		}
		next, waiting := r.decide()
		who := strings.Join(waiting, ", ")
		news, waits := rotationNews{Message: stepTexts[next], Waiting: append([]string{}, waiting...)}, true
		switch next {
		case stepWaitAccepted, stepWaitUsed, stepWaitDropped:
			news.Message = fmt.Sprintf("copy %s to every node that has a file of its own; waiting for %s", c.SecretFile, who)
		case stepWaitSealed:
		case stepDone:
			c.sayDone(&news, r.former)
			err, waits = os.Remove(c.SecretFile+rotatingSuffix), false
		default:
			err, waits = c.take(next), false
			deadline = time.Now().Add(c.Wait)
		}
		if err == nil {
			err = say(news)
		}
		switch {
		case err != nil || next == stepDone:
			return err
		case !waits:
			continue
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not follow in time; start it, or remove it with `commons raft remove-peer`, and run this again: it continues from here", who)
		}
		if !loop.Pause(ctx, rotateInterval) {
			return errors.New("interrupted; run this again: it continues from here")
		}
	}
}

var stepTexts = map[step]string{
	stepAdd:        "added a new secret to the file; every node must accept it first",
	stepSwap:       "every node accepts the new secret; it is now first in the file, so that it is used",
	stepWaitSealed: "every node uses the new secret; waiting for the leader to seal the data key under it",
	stepDrop:       "the data key is sealed under the new secret; removed the former one from the file",
}

// sayDone says what is left to do: the former secret is not needed by any node, but
// by every backup until now.
func (c *secretRotateCommand) sayDone(news *rotationNews, former string) {
	now := time.Now().UTC().Truncate(time.Second).Add(time.Second)
	news.Done, news.BackupsBefore, news.FormerSecretFile = true, now.UnixMilli(), cluster.FormerSecretFile(c.SecretFile, former)
	news.Message = fmt.Sprintf("done: every node has only the new secret. Every backup made before %s needs the former secret, %s, to be restored: it is kept in %s "+
		"(`commons snapshot restore --source-secret-file`). Make a backup now, and delete that file when you have deleted the backups from before",
		now.Format(time.RFC3339), former, news.FormerSecretFile)
}

// look returns how far the rotation is. It waits for a server that does not answer.
func (c *secretRotateCommand) look(ctx context.Context) (r rotation, err error) {
	file, err := cluster.OpenSecretFile(c.SecretFile)
	if err != nil {
		return r, &configError{[]string{err.Error()}}
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
	t := target{ClusterAddr: c.ClusterAddr, SecretFile: c.SecretFile, Timeout: c.Wait}
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

// take changes the local file.
func (c *secretRotateCommand) take(next step) error {
	file, err := cluster.OpenSecretFile(c.SecretFile)
	if err != nil {
		return err
	}
	switch next {
	case stepAdd:
		return file.Add(func(id string) error {
			return os.WriteFile(c.SecretFile+rotatingSuffix, []byte(id+"\n"+file.IDs()[0]+"\n"), rotatingMode)
		})
	case stepSwap:
		return file.Swap()
	default:
		return file.Drop()
	}
}
