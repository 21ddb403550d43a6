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
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/offline"
)

type snapshotCommand struct {
	Save    snapshotSaveCommand    `cmd:"" help:"Save a backup of everything, while the cluster serves."`
	Inspect snapshotInspectCommand `cmd:"" help:"Check a backup and show what it holds."`
	Restore snapshotRestoreCommand `cmd:"" help:"Make an empty data directory the first node of a new cluster, with the state of a backup; or try whether that works."`
}

// backupMode is the mode of backup files: they hold what is never public, such
// as the addresses that agents are notified at.
const backupMode = 0o600

type snapshotSaveCommand struct {
	target `embed:""`
	File   string `arg:"" help:"Where to save it. A file that is there is replaced once the new one is whole."`
}

// Run saves a backup. What comes is checked on its way to the disk.
func (c *snapshotSaveCommand) Run(ctx context.Context, std streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	start := time.Now()
	partial, err := os.CreateTemp(filepath.Dir(c.File), filepath.Base(c.File)+".*.partial")
	if err != nil {
		return fmt.Errorf("nothing was saved: %w; name a file in a directory that is there and can be written", err)
	}
	defer func() { _ = os.Remove(partial.Name()) }() // no longer there once it is whole
	stream, err := client.Stream(ctx, admin.PathSnapshot, nil)
	if err != nil {
		return errors.Join(err, partial.Close())
	}
	defer func() { _ = stream.Close() }() // read to its end
	report, err := saveBackup(c.File, partial, stream)
	if err != nil {
		return fmt.Errorf("nothing was saved: %w; repeat, or ask another node", err)
	}
	c.record(ctx, std, client, report.Info)
	if c.JSON {
		return show(std.out, true, report, "")
	}
	_, err = fmt.Fprintf(std.out, "saved %s: %d entries up to index %d, %s in %v\n",
		c.File, report.Entries, report.Index, bytesText(uint64(report.FileBytes)), time.Since(start).Round(time.Millisecond))
	return err
}

// record has the cluster know of the backup. Without that the backup is as good, but
// the alert on old ones does not know of it.
func (c *snapshotSaveCommand) record(ctx context.Context, std streams, client *admin.Client, saved backup.Info) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if _, err := admin.Call[struct{}](ctx, client, admin.PathSaved, admin.SavedBackup{CreatedAt: saved.CreatedAt}); err != nil {
		fmt.Fprintf(std.err, "warning: %s is whole, but the cluster does not count it, so that CommonsBackupOld may fire: %v\n", c.File, err)
	}
}

// savedBackup is a backup and its length on disk.
type savedBackup struct {
	backup.Report
	FileBytes int64 `json:"fileBytes"`
}

// saveBackup writes a stream to a file, closes it, and gives it its name when it is
// whole and on the disk.
func saveBackup(path string, f *os.File, stream io.Reader) (report savedBackup, err error) {
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
	sources `embed:""`
	File    string `arg:"" help:"The backup."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// sources are where the secret of a backup or a data directory may be.
type sources struct {
	SecretFile   string `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; of the new cluster where one is made."`
	SourceSecret string `name:"source-secret-file" placeholder:"FILE" help:"Secret that the data key is sealed under, where --secret-file does not hold it: that of another cluster, or from before a rotation."`
}

// named reports whether any secret is at hand.
func (s *sources) named() bool { return s.SecretFile != "" || s.SourceSecret != "" }

// inspected is a whole backup, and whether it can be restored with what is at hand.
type inspected struct {
	backup.Report
	Restorable *bool  `json:"restorable"`        // null: no secret was named
	Problem    string `json:"problem,omitempty"` // why it cannot be restored, or that is not known
}

// Run reads the whole backup. It fails also when the secrets that were named do not
// open it.
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
	found, problem := c.check(report)
	if c.JSON {
		err = show(std.out, true, found, "")
	} else {
		err = table(std.out, inspectedRows(c.File, &found))
	}
	return errors.Join(err, problem)
}

// check says whether a backup can be restored; problem is why not.
func (c *snapshotInspectCommand) check(report backup.Report) (found inspected, problem error) {
	found.Report = report
	problem = offline.CheckRestorable(report.Info, offline.Offline{SecretFile: c.SecretFile, SourceSecret: c.SourceSecret})
	if errors.Is(problem, cluster.ErrSealedElsewhere) && !c.named() {
		found.Problem = "no secret was named; see whether yours opens it with --secret-file"
		return found, nil
	}
	restorable := problem == nil
	found.Restorable = &restorable
	if problem != nil {
		found.Problem = problem.Error()
		problem = fmt.Errorf("%s is whole, and cannot be restored with what is at hand: %w", c.File, problem)
	}
	return found, problem
}

func inspectedRows(file string, found *inspected) []string {
	restorable := "not known: " + found.Problem
	if found.Restorable != nil {
		restorable = yesNo(*found.Restorable)
	}
	return []string{
		"BACKUP\t" + file + ", whole",
		"created\t" + timeText(found.CreatedAt) + " by " + found.Node + ", version " + found.Program,
		"cluster\t" + fmt.Sprintf("%s, format %d", found.ClusterID, found.Format),
		"entries\t" + fmt.Sprintf("%d, up to %s", found.Entries, timeText(found.Time)),
		"log\t" + fmt.Sprintf("index %d, term %d", found.Index, found.Term),
		"state\t" + bytesText(uint64(found.ContentBytes)),
		"digest\t" + found.Digest,
		"rows\t" + found.Rows,
		"secret\t" + found.SealedUnder,
		"restorable\t" + restorable,
	}
}

func timeText(millis int64) string {
	return time.UnixMilli(millis).UTC().Format(time.RFC3339)
}
