package operate

import (
	"fmt"
	"path/filepath"

	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/offline"
)

// directory is the data directory that a command works on while no node runs on it.
type directory struct {
	sources    `embed:""`
	DataDir    string `name:"data-dir" env:"COMMONS_DATA_DIR" default:"./data" placeholder:"DIR" help:"Data directory of the node."`
	NodeID     string `name:"node-id" env:"COMMONS_NODE_ID" placeholder:"NAME" help:"Name of the node (default: the host name, or the one that the directory has)."`
	NewDataKey bool   `name:"new-data-key" help:"Give the new cluster another data key, when the secret that the former one is sealed under is lost. Keys that sign deliveries and the pseudonyms of senders start anew."`
	JSON       bool   `name:"json" help:"Print JSON."`
}

// node returns the settings for package offline.
func (o *directory) node() (offline.Offline, error) {
	if o.NewDataKey && o.SourceSecret != "" {
		return offline.Offline{}, &config.Error{Problems: []string{
			"--new-data-key: --source-secret-file names a secret for the former data key; give one of them, --source-secret-file if you have that secret",
		}}
	}
	return offline.Offline{
		DataDir: o.DataDir, NodeID: o.NodeID, SecretFile: o.SecretFile, SourceSecret: o.SourceSecret, NewDataKey: o.NewDataKey,
	}, nil
}

// newKeyNotice lists the consequences of a new data key.
const newKeyNotice = `
The data key is new, so what depended on the former one starts again:
- Deliveries are signed with another key. Ask receivers that keep the key to fetch /.well-known/commons-keys.json again.
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
	if founded.NewDataKey {
		text += newKeyNotice
	}
	return terminal.Show(std.Out, o.JSON, founded, text)
}

type snapshotRestoreCommand struct {
	directory `embed:""`
	File      string   `arg:"" help:"The backup."`
	PurgeList []string `name:"purge-list" sep:"," placeholder:"FILE" help:"Lists of what was purged; what the newest one names is purged again (default: those beside the backup, named *.purged.json)."`
	Check     bool     `name:"check" help:"Only try it: restore into a temporary directory (below TMPDIR), compare the digests, and remove it. No data directory is touched."`
}

func (c *snapshotRestoreCommand) Run(std terminal.Streams) (err error) {
	at, err := c.node()
	if err != nil {
		return err
	}
	if at.PurgeLists = c.PurgeList; len(at.PurgeLists) == 0 {
		if at.PurgeLists, err = filepath.Glob(filepath.Join(filepath.Dir(c.File), "*"+backup.PurgeListSuffix)); err != nil {
			return err
		}
	}
	if len(at.PurgeLists) == 0 {
		defer func() {
			if err == nil {
				fmt.Fprintf(std.Err, "warning: no purge list was given and none is beside %s (*%s): what was purged after the backup comes back\n", c.File, backup.PurgeListSuffix)
			}
		}()
	}
	if c.Check {
		return c.try(std, at)
	}
	founded, err := offline.Restore(at, c.File)
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	return c.report(std, "restored and verified", founded)
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
	founded, err := offline.CheckRestore(at, c.File)
	if err != nil {
		return fmt.Errorf("%s cannot be restored: %w", c.File, err)
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
