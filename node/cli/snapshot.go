package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
)

type snapshotCommand struct {
	Save    snapshotSaveCommand    `cmd:"" help:"Save a backup of everything, while the cluster serves."`
	Inspect snapshotInspectCommand `cmd:"" help:"Check a backup and show what it holds."`
	Restore snapshotRestoreCommand `cmd:"" help:"Make an empty data directory the first node of a new cluster, with the state of a backup."`
}

// backupMode is the mode of backup files: they hold what is never public, such
// as where agents want to be told.
const backupMode = 0o600

type snapshotSaveCommand struct {
	target `embed:""`
	File   string `arg:"" help:"Where to save it. A file that is there is replaced once the new one is whole."`
}

// Run saves a backup. What comes is checked on its way to the disk.
func (c *snapshotSaveCommand) Run(ctx context.Context, std streams) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := untilSignal(ctx)
	defer stop()
	start := time.Now()
	stream, err := client.Stream(ctx, admin.PathSnapshot, nil)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // read to its end
	report, err := saveBackup(c.File, stream)
	if err != nil {
		return fmt.Errorf("nothing was saved: %w; repeat, or ask another node", err)
	}
	if c.JSON {
		return show(std.out, true, report, "")
	}
	_, err = fmt.Fprintf(std.out, "saved %s: %d entries up to index %d, %s in %v\n",
		c.File, report.Entries, report.Index, bytesText(uint64(report.FileBytes)), time.Since(start).Round(time.Millisecond))
	return err
}

// savedBackup is a backup and its length on disk.
type savedBackup struct {
	backup.Report
	FileBytes int64 `json:"fileBytes"`
}

// saveBackup writes a stream to a file that appears under its name when it is
// whole and on the disk.
func saveBackup(path string, stream io.Reader) (report savedBackup, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return report, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to report
		}
	}()
	counted := &countedWriter{to: f}
	report.Report, err = backup.Inspect(io.TeeReader(stream, counted))
	err = errors.Join(err, f.Chmod(backupMode), f.Sync(), f.Close())
	if err != nil {
		return report, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return report, err
	}
	report.FileBytes = counted.n
	return report, cluster.SyncDir(filepath.Dir(path))
}

type countedWriter struct {
	to io.Writer
	n  int64
}

// Write counts what it passes on.
func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += int64(n)
	return n, err
}

type snapshotInspectCommand struct {
	File string `arg:"" help:"The backup."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run reads the whole backup.
func (c *snapshotInspectCommand) Run(std streams) error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	report, err := backup.Inspect(f)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if c.JSON {
		return show(std.out, true, report, "")
	}
	return table(std.out, []string{
		"BACKUP\t" + c.File + ", whole",
		"created\t" + timeText(report.CreatedAt) + " by " + report.Node + ", version " + report.Program,
		"cluster\t" + fmt.Sprintf("%s, format %d", report.ClusterID, report.Format),
		"entries\t" + fmt.Sprintf("%d, up to %s", report.Entries, timeText(report.Time)),
		"log\t" + fmt.Sprintf("index %d, term %d", report.Index, report.Term),
		"state\t" + bytesText(uint64(report.ContentBytes)),
		"digest\t" + report.Digest,
		"rows\t" + report.Rows,
		"secret\t" + report.SealedUnder,
	})
}

func timeText(millis int64) string {
	return time.UnixMilli(millis).UTC().Format(time.RFC3339)
}

// offline is the data directory that a command works on while no node runs on it.
type offline struct {
	DataDir    string `name:"data-dir" env:"COMMONS_DATA_DIR" default:"./data" placeholder:"DIR" help:"Data directory of the node."`
	NodeID     string `name:"node-id" env:"COMMONS_NODE_ID" placeholder:"NAME" help:"Name of the node (default: the host name, or the one that the directory has)."`
	SecretFile string `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"Secret of the new cluster."`
	JSON       bool   `name:"json" help:"Print JSON."`
}

func (o *offline) node() node.Offline {
	return node.Offline{DataDir: o.DataDir, NodeID: o.NodeID, SecretFile: o.SecretFile}
}

// tell says what a data directory has become.
func (o *offline) tell(std streams, done string, founded node.Founded) error {
	return show(std.out, o.JSON, founded, fmt.Sprintf(`%s: %d entries up to index %d, digest %s
%s is the only voter of the new cluster %s (the former one was %s).
Start it on %s, then the others with --join and empty data directories.`,
		done, founded.Entries, founded.Index, founded.Digest, founded.ServerID, founded.ClusterID, founded.Former, o.DataDir))
}

type snapshotRestoreCommand struct {
	offline      `embed:""`
	File         string `arg:"" help:"The backup."`
	SourceSecret string `name:"source-secret-file" placeholder:"FILE" help:"Secret of the cluster that was backed up, where --secret-file does not hold it."`
}

// Run restores a backup.
func (c *snapshotRestoreCommand) Run(std streams) error {
	founded, err := node.Restore(c.node(), c.File, c.SourceSecret)
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	return c.tell(std, "restored and verified", founded)
}

type recoverCommand struct {
	offline `embed:""`
	Confirm bool `name:"confirm" help:"Do it: the other servers are gone for good, or stopped and their data directories will be emptied."`
}

// Run recovers a node alone.
func (c *recoverCommand) Run(std streams) error {
	if !c.Confirm {
		held, err := node.Survey(c.node())
		if err != nil {
			return fmt.Errorf("not recovered: %w", err)
		}
		ends := "log"
		if held.LostLog != nil {
			ends = fmt.Sprintf("log is lost (%v) and whose state", held.LostLog)
		}
		return &configError{[]string{fmt.Sprintf(
			"--confirm is missing: recover makes %s, whose %s ends at index %d of term %d, the only voter of a new cluster. What only the other servers had is lost. "+
				"Stop all of them, run this on each that is left, choose the one with the highest term and, among those, the highest index, and empty the others' data directories afterwards",
			held.ServerID, ends, held.LastLog, held.LastTerm)}}
	}
	logger, err := newLogger(std.err, "warn", "text")
	if err != nil {
		return err
	}
	founded, err := node.Recover(c.node(), logger)
	if err != nil {
		return fmt.Errorf("not recovered: %w", err)
	}
	return c.tell(std, "recovered", founded)
}
