package cli

import (
	"context"
	"encoding/json"
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
	File   string `arg:"" help:"Where to save it. An existing file is replaced once the new one is whole."`
}

// Run checks what comes on its way to the disk.
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
	if err := savePurgeList(ctx, client, c.File+backup.PurgeListSuffix); err != nil {
		return fmt.Errorf("%s is whole, and the list of what was purged could not be saved beside it: %w; run `commons mod purge-list`", c.File, err)
	}
	return show(std.out, c.JSON, report, fmt.Sprintf("saved %s: %s up to index %d, %s in %v",
		c.File, entries(report.Entries), report.Index, admin.BytesText(uint64(report.FileBytes)), time.Since(start).Round(time.Millisecond)))
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

// savePurgeList saves all that was purged to a file.
func savePurgeList(ctx context.Context, client *admin.Client, path string) error {
	stream, err := client.Stream(ctx, admin.PathPurged, nil) // it may be longer than other answers
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // read to its end
	var list backup.PurgeList
	if err := json.NewDecoder(stream).Decode(&list); err != nil {
		return fmt.Errorf("the list was cut off: %w", err)
	}
	return list.Write(path)
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
	return errors.Join(show(std.out, c.JSON, found, inspectedText(c.File, &found)), problem)
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

func inspectedText(file string, found *inspected) string {
	restorable := "not known: " + found.Problem
	if found.Restorable != nil {
		restorable = yesNo(*found.Restorable)
	}
	return table("BACKUP\t"+file+", whole", [][]any{
		{"created", timeText(found.CreatedAt) + " by " + found.Node + ", version " + found.Program},
		{"cluster", fmt.Sprintf("%s, format %d", found.ClusterID, found.Format)},
		{"entries", fmt.Sprintf("%d, up to %s", found.Entries, timeText(found.Time))},
		{"log", fmt.Sprintf("index %d, term %d", found.Index, found.Term)},
		{"state", admin.BytesText(uint64(found.ContentBytes))},
		{"digest", found.Digest},
		{"rows", found.Rows},
		{"secret", found.SealedUnder},
		{"restorable", restorable},
	}, func(cells *[]any) []any { return *cells })
}

// entries counts entries.
func entries(n uint64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func timeText(millis int64) string {
	return time.UnixMilli(millis).UTC().Format(time.RFC3339)
}

// directory is the data directory that a command works on while no node runs on it.
type directory struct {
	sources    `embed:""`
	DataDir    string `name:"data-dir" env:"COMMONS_DATA_DIR" default:"./data" placeholder:"DIR" help:"Data directory of the node."`
	NodeID     string `name:"node-id" env:"COMMONS_NODE_ID" placeholder:"NAME" help:"Name of the node (default: the host name, or the one that the directory has)."`
	NewDataKey bool   `name:"new-data-key" help:"Give the new cluster another data key, when the secret that the former one is sealed under is lost. Keys that sign deliveries and the pseudonyms of senders start anew."`
	JSON       bool   `name:"json" help:"Print JSON."`
}

// node says the same to package offline.
func (o *directory) node() (offline.Offline, error) {
	if o.NewDataKey && o.SourceSecret != "" {
		return offline.Offline{}, &configError{[]string{
			"--new-data-key: --source-secret-file names a secret for the former data key; give one of them, --source-secret-file if you have that secret",
		}}
	}
	return offline.Offline{
		DataDir: o.DataDir, NodeID: o.NodeID, SecretFile: o.SecretFile, SourceSecret: o.SourceSecret, NewDataKey: o.NewDataKey,
	}, nil
}

// newKeyNotice says what a new data key means.
const newKeyNotice = `
The data key is new, so what depended on the former one starts again:
- Deliveries are signed with another key. Ask receivers that keep the key to fetch /.well-known/commons-keys.json again.
- Senders get other pseudonyms. An agent proves its name only with its edit_key, and a request_id that was sent without a name counts as a new one.`

// report says what a data directory has become.
func (o *directory) report(std streams, done string, founded offline.Founded) error {
	text := fmt.Sprintf(`%s: %s up to index %d, digest %s
%s is the only voter of the new cluster %s (the former one was %s).
Start it on %s, then the others with --join and empty data directories.`,
		done, entries(founded.Entries), founded.Index, founded.Digest, founded.ServerID, founded.ClusterID, founded.Former, o.DataDir)
	if founded.Purged > 0 {
		text += "\n" + plural(founded.Purged, "text") + " purged again, as the purge list says."
	}
	if founded.NewDataKey {
		text += newKeyNotice
	}
	return show(std.out, o.JSON, founded, text)
}

type snapshotRestoreCommand struct {
	directory `embed:""`
	File      string   `arg:"" help:"The backup."`
	PurgeList []string `name:"purge-list" sep:"," placeholder:"FILE" help:"Lists of what was purged; what the newest one names is purged again (default: those beside the backup, named *.purged.json)."`
	Check     bool     `name:"check" help:"Only try it: restore into a temporary directory (below TMPDIR), compare the digests, and remove it. No data directory is touched."`
}

func (c *snapshotRestoreCommand) Run(std streams) (err error) {
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
				fmt.Fprintf(std.err, "warning: no purge list was given and none is beside %s (*%s): what was purged after the backup comes back\n", c.File, backup.PurgeListSuffix)
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

// tried is what --check prints as JSON.
type tried struct {
	Restorable bool   `json:"restorable"`
	Former     string `json:"former"` // id of the cluster that was backed up
	Index      uint64 `json:"index"`
	Entries    uint64 `json:"entries"`
	Digest     string `json:"digest"`
	Rows       string `json:"rows"`
}

func (c *snapshotRestoreCommand) try(std streams, at offline.Offline) error {
	founded, err := offline.CheckRestore(at, c.File)
	if err != nil {
		return fmt.Errorf("%s cannot be restored: %w", c.File, err)
	}
	return show(std.out, c.JSON, tried{true, founded.Former, founded.Index, founded.Entries, founded.Digest, founded.Rows},
		fmt.Sprintf("%s can be restored: %s up to index %d, digest %s\nIt was restored, verified and removed again; nothing else was touched.",
			c.File, entries(founded.Entries), founded.Index, founded.Digest))
}

type recoverCommand struct {
	directory `embed:""`
	Confirm   bool `name:"confirm" help:"Do it: the other servers are gone for good, or stopped and their data directories will be emptied."`
}

func (c *recoverCommand) Run(std streams) error {
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
		return &configError{[]string{fmt.Sprintf(
			"--confirm is missing: recover makes %s, whose %s ends at index %d of term %d, the only voter of a new cluster. What only the other servers had is lost. "+
				"Stop all of them, run this on each that is left, choose the one with the highest term and, among those, the highest index, and empty the others' data directories afterwards",
			held.ServerID, ends, held.LastLog, held.LastTerm)}}
	}
	logger, err := newLogger(std.err, "warn", "text")
	if err != nil {
		return err
	}
	founded, err := offline.Recover(at, logger)
	if err != nil {
		return fmt.Errorf("not recovered: %w", err)
	}
	return c.report(std, "recovered", founded)
}
