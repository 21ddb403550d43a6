package operate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/offsite"
)

// directory is the data directory that a command works on while no node runs on it.
type directory struct {
	sources    `embed:""`
	DataDir    string `name:"data-dir" env:"COMMONS_DATA_DIR" default:"./data" placeholder:"DIR" help:"Data directory of the node."`
	NodeID     string `name:"node-id" env:"COMMONS_NODE_ID" placeholder:"NAME" help:"Name of the node (default: the host name, or the one that the directory has)."`
	NewDataKey bool   `name:"new-data-key" help:"Give the new cluster another data key, when the secret that the former one is sealed under is lost. Receivers are paused until their agents set them again, and the pseudonyms of senders start anew."`
	JSON       bool   `name:"json" help:"Print JSON."`
}

// node returns the settings for package offline.
func (o *directory) node() (offline.Offline, error) {
	if o.NewDataKey && o.SourceSecret != "" {
		return offline.Offline{}, &config.Error{Problems: []string{
			"--new-data-key: --old-secret names a secret for the former data key; give one of them, --old-secret if you have that secret",
		}}
	}
	return offline.Offline{
		DataDir: o.DataDir, NodeID: o.NodeID, SecretFile: o.SecretFile, SourceSecret: o.SourceSecret, NewDataKey: o.NewDataKey,
	}, nil
}

// newKeyNotice lists the consequences of a new data key.
const newKeyNotice = `
The data key is new, so what depended on the former one starts again:
- Receivers are paused: the secrets of their signatures came from it. Home tells each agent to set notify_url again.
- Senders get other pseudonyms. An agent proves its name only with its edit_key, and a request_id that was sent without a name counts as a new one.`

// report shows the new cluster that a data directory belongs to.
func (o *directory) report(std terminal.Streams, done string, founded offline.Founded) error {
	text := fmt.Sprintf(`%s: %s up to index %d, digest %s
%s is the only voter of the new cluster %s (the former one was %s).
Start it on %s, then the others with --join and empty data directories.`,
		done, entries(founded.Entries), founded.Index, founded.Digest, founded.ServerID, founded.ClusterID, founded.Former, o.DataDir)
	if founded.Purged > 0 {
		text += "\n" + terminal.Plural(founded.Purged, "text") + " purged again, as the purge list says."
	}
	if founded.PurgesUpTo > 0 {
		text += "\nPurges up to " + terminal.TimeText(founded.PurgesUpTo) + " are repeated; texts purged later are back."
	}
	if founded.NewDataKey {
		text += newKeyNotice
	}
	return terminal.Show(std.Out, o.JSON, founded, text)
}

type snapshotRestoreCommand struct {
	directory  `embed:""`
	stored     `embed:""`
	Purged     []string `name:"purged" sep:"," placeholder:"FILE" help:"Newer lists of what was purged; what the newest one names is purged again (default: those beside the backup, named *.purged.json; from a store its newest)."`
	PurgedFrom string   `name:"purged-from" placeholder:"HOST:PORT" help:"Private port of a node of the former cluster that is still alive: what it knows to be purged is purged again."`
	Accept     string   `name:"accept-purged-since" placeholder:"TIME" help:"Go on without a newer list: texts that were purged after this time come back. RFC 3339, at most the time up to which purges are known."`
	Check      bool     `name:"check" help:"Only try it: restore into a temporary directory (below TMPDIR), compare the digests, and remove it. No data directory is touched."`
	Yes        bool     `name:"yes" help:"Restore also from a store with backups of several clusters: that of the newest upload."`
}

func (c *snapshotRestoreCommand) Run(ctx context.Context, std terminal.Streams) error {
	at, err := c.node()
	if err != nil {
		return err
	}
	found, err := c.locate(ctx)
	if err != nil {
		return c.failed(err)
	}
	switch {
	case found.choice != "" && !c.Check && !c.Yes:
		return c.failed(fmt.Errorf("%s\nGive --yes to restore it, or name another one", found.choice))
	case found.choice != "":
		fmt.Fprintln(std.Err, "commons: "+found.choice)
	}
	at.Open, at.Purged = found.open, found.purges
	info, err := at.Info(c.File)
	if err != nil {
		return c.failed(err)
	}
	own, other, err := c.lists(info)
	if err != nil {
		return c.failed(err)
	}
	known := backup.PurgeList{ClusterID: info.ClusterID, CreatedAt: info.Time, Index: info.Index} // by the backup itself
	newer := at.Purged.After(&known) || c.PurgedFrom != "" || other.After(&own) && other.After(&known)
	for _, list := range []backup.PurgeList{own, other} {
		if list.After(&at.Purged) {
			at.Purged = list
		}
	}
	if c.PurgedFrom != "" {
		asked := target{Timeout: listTimeout}
		asked.nodes = nodes{[]string{c.PurgedFrom}, cmp.Or(c.SourceSecret, c.SecretFile)}
		list, err := asked.purgeList(ctx)
		if err != nil {
			return fmt.Errorf("nothing was restored: --purged-from: %w", err)
		}
		if list.After(&at.Purged) {
			at.Purged = list
		}
	}
	if c.Check {
		return c.try(std, at)
	}
	if !newer {
		if err := c.checkAccepted(max(info.Time, at.Purged.CreatedAt)); err != nil {
			return err
		}
	}
	founded, err := offline.Restore(at, c.File)
	if err != nil {
		return c.failed(err)
	}
	return c.report(std, "restored and verified", founded)
}

// failed returns the error of a restore, or of the try of one.
func (c *snapshotRestoreCommand) failed(err error) error {
	if c.Check {
		return fmt.Errorf("%s cannot be restored: %w", c.File, err)
	}
	return fmt.Errorf("nothing was restored: %w", err)
}

// lists returns the list of purges that was saved with a backup in a file, and the newest other
// list: one that was named, or one of the same cluster beside the backup.
func (c *snapshotRestoreCommand) lists(info backup.Info) (own, other backup.PurgeList, err error) {
	named := make([]string, len(c.Purged))
	for i, path := range c.Purged {
		named[i] = filepath.Clean(path)
	}
	var beside []string
	if !offsite.IsURL(c.File) {
		dir := filepath.Dir(c.File)
		files, err := os.ReadDir(dir) // a pattern would take marks in the name of the directory for its own
		if err != nil {
			return own, other, err
		}
		for _, file := range files {
			if strings.HasSuffix(file.Name(), backup.PurgeListSuffix) {
				beside = append(beside, filepath.Join(dir, file.Name()))
			}
		}
	}
	ownPath := filepath.Clean(c.File) + backup.PurgeListSuffix
	for _, path := range slices.Concat(named, beside) {
		list, err := backup.ReadPurgeList(path)
		switch {
		case err != nil:
			return own, other, err
		case path == ownPath:
			own = list
		case list.After(&other) && (slices.Contains(named, path) || list.Covers(info.ClusterID)):
			other = list
		}
	}
	return own, other, nil
}

const listTimeout = 30 * time.Second // for the purge list of a node

// checkAccepted returns the error of a restore without a newer list than that of the backup,
// unless the operator accepts that texts purged since come back. Purges are known up to a time, in
// milliseconds since the epoch.
func (c *snapshotRestoreCommand) checkAccepted(upTo int64) error {
	shown := terminal.TimeText(upTo)
	if c.Accept == "" {
		return fmt.Errorf("nothing was restored: purges are known up to %s; texts purged later would be back. Name a newer list with --purged FILE "+
			"(`commons mod purge-list`), ask a node of the former cluster that is still alive with --purged-from HOST:PORT, "+
			"or go on with --accept-purged-since %s", shown, shown)
	}
	since, err := time.Parse(time.RFC3339, c.Accept)
	if err != nil {
		return &config.Error{Problems: []string{fmt.Sprintf("--accept-purged-since: %q is no time such as %s", c.Accept, shown)}}
	}
	if since.UnixMilli() > upTo {
		return &config.Error{Problems: []string{fmt.Sprintf("--accept-purged-since: purges are known up to %s only: texts that were purged between it and %s would be back, too", shown, c.Accept)}}
	}
	return nil
}

type tried struct {
	Restorable bool   `json:"restorable"`
	Former     string `json:"former"` // id of the cluster that was backed up
	Index      uint64 `json:"index"`
	Entries    uint64 `json:"entries"`
	Digest     string `json:"digest"`
	Rows       string `json:"rows"`
}

func (c *snapshotRestoreCommand) try(std terminal.Streams, at offline.Offline) error {
	founded, err := offline.CheckRestore(at, c.File, "")
	if err != nil {
		return c.failed(err)
	}
	return terminal.Show(std.Out, c.JSON, tried{true, founded.Former, founded.Index, founded.Entries, founded.Digest, founded.Rows},
		fmt.Sprintf("%s can be restored: %s up to index %d, digest %s\nIt was restored, verified and removed again; nothing else was touched.",
			c.File, entries(founded.Entries), founded.Index, founded.Digest))
}

type recoverCommand struct {
	directory `embed:""`
	Confirm   bool `name:"confirm" help:"Do it: the other servers are gone for good, or stopped and their data directories will be emptied."`
}

func (c *recoverCommand) Run(std terminal.Streams) error {
	at, err := c.node()
	if err != nil {
		return err
	}
	if !c.Confirm {
		held, err := offline.Survey(at)
		if err != nil {
			return fmt.Errorf("not recovered: %w", err)
		}
		ends := "log"
		if held.LostLog != nil {
			ends = fmt.Sprintf("log is lost (%v) and whose state", held.LostLog)
		}
		return &config.Error{Problems: []string{fmt.Sprintf(
			"--confirm is missing: recover makes %s, whose %s ends at index %d of term %d, the only voter of a new cluster. What only the other servers had is lost. "+
				"Stop all of them, run this on each that is left, choose the one with the highest term and, among those, the highest index, and empty the others' data directories afterwards",
			held.ServerID, ends, held.LastLog, held.LastTerm)}}
	}
	logger, err := terminal.NewLogger(std.Err, "warn", "text")
	if err != nil {
		return err
	}
	founded, err := offline.Recover(at, logger)
	if err != nil {
		return fmt.Errorf("not recovered: %w", err)
	}
	return c.report(std, "recovered", founded)
}
