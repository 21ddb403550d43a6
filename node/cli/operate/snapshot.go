package operate

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
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/offsite"
)

type snapshotCommand struct {
	Save    snapshotSaveCommand    `cmd:"" help:"Save a backup of everything, while the cluster serves."`
	Inspect snapshotInspectCommand `cmd:"" help:"Check a backup and show what it holds."`
	List    snapshotListCommand    `cmd:"" help:"List the backups in a store: s3://… or file://…"`
	Restore snapshotRestoreCommand `cmd:"" help:"Make an empty data directory the first node of a new cluster, with the state of a backup; or try whether that works."`
}

// backupMode is the mode of backup files. They contain data that is never public, such as
// the addresses of agents' receivers.
const backupMode = 0o600

type snapshotSaveCommand struct {
	target         `embed:""`
	offsite.Access `embed:""`
	File           string `arg:"" help:"Where to save it: a file, or the address of a store, s3://BUCKET/PREFIX or file:///DIRECTORY. An existing file is replaced once the new one is whole. With - the backup goes to standard output; it is whole only if the exit code is 0."`
}

const stdout = "-"

// Run checks the backup on its way to the disk.
func (c *snapshotSaveCommand) Run(ctx context.Context, std terminal.Streams) error {
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.File == stdout {
		return c.pipe(ctx, std, client)
	}
	if offsite.IsURL(c.File) {
		return c.upload(ctx, std, client)
	}
	if err := cluster.CheckReplaceable(c.File); err != nil {
		return fmt.Errorf("nothing was saved: %w; with - the backup goes to standard output", err)
	}
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
	var report backup.Report
	err = backup.ReplaceFile(c.File, partial, func(w io.Writer) error {
		report, err = backup.Inspect(io.TeeReader(stream, w))
		return errors.Join(err, partial.Chmod(backupMode))
	})
	if err != nil {
		return fmt.Errorf("nothing was saved: %w; repeat, or ask another node", err)
	}
	c.record(ctx, std, client, report.Info)
	list, err := fetchPurgeList(ctx, client)
	if err == nil {
		err = list.Write(c.File + backup.PurgeListSuffix)
	}
	if err != nil {
		return fmt.Errorf("%s is whole, and the list of what was purged could not be saved beside it: %w; run `commons mod purge-list`", c.File, err)
	}
	return terminal.Show(std.Out, c.JSON, report, savedText(&report, c.File, start))
}

// pipe writes a backup to standard output, and the report on it to standard error. The
// purge list is not saved.
func (c *snapshotSaveCommand) pipe(ctx context.Context, std terminal.Streams, client *admin.Client) error {
	if terminal.IsTerminal(std.Out) {
		return &config.Error{Problems: []string{"-: a backup is not for a terminal; write it to a file or a pipe"}}
	}
	start := time.Now()
	stream, err := client.Stream(ctx, admin.PathSnapshot, nil)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // read to its end
	report, err := backup.Inspect(io.TeeReader(stream, std.Out))
	if err != nil {
		return fmt.Errorf("the backup on standard output is not whole: %w; repeat, or ask another node", err)
	}
	c.record(ctx, std, client, report.Info)
	fmt.Fprintln(std.Err, "commons: save the list of purged entries, too: `commons mod purge-list FILE"+backup.PurgeListSuffix+"`")
	return terminal.Show(std.Err, c.JSON, report, savedText(&report, "to standard output", start))
}

// record tells the cluster about the backup, for the alert on old backups. The backup is
// valid without it.
func (c *snapshotSaveCommand) record(ctx context.Context, std terminal.Streams, client *admin.Client, saved backup.Info) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if _, err := admin.Call[struct{}](ctx, client, admin.PathSaved, admin.SavedBackup{CreatedAt: saved.CreatedAt}); err != nil {
		fmt.Fprintf(std.Err, "warning: %s is whole, but the cluster does not count it, so that CommonsBackupOld may fire: %v\n", c.File, err)
	}
}

// purgeList returns the list of what was purged.
func (t *target) purgeList(ctx context.Context) (list backup.PurgeList, err error) {
	client, err := t.dial(ctx)
	if err != nil {
		return list, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	return fetchPurgeList(ctx, client)
}

func fetchPurgeList(ctx context.Context, client *admin.Client) (list backup.PurgeList, err error) {
	stream, err := client.Stream(ctx, admin.PathPurged, nil) // it may be longer than other answers
	if err != nil {
		return list, err
	}
	defer func() { _ = stream.Close() }() // read to its end
	if err := json.NewDecoder(stream).Decode(&list); err != nil {
		return list, fmt.Errorf("the list was cut off: %w", err)
	}
	return list, nil
}

// savedText says where a backup was saved, what it holds, and how long it took since start.
func savedText(b *backup.Report, to string, start time.Time) string {
	return fmt.Sprintf("saved %s: %s up to index %d, %s in %v",
		to, entries(b.Entries), b.Index, admin.BytesText(uint64(b.FileBytes)), time.Since(start).Round(time.Millisecond))
}

type snapshotInspectCommand struct {
	sources `embed:""`
	stored  `embed:""`
	JSON    bool `name:"json" help:"Print JSON."`
}

// sources are the files that may contain the secret of a backup or a data directory.
type sources struct {
	SecretFile   string `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret; of the new cluster where one is made."`
	SourceSecret string `name:"old-secret" placeholder:"FILE" help:"Secret that the data key is sealed under, where --secret-file does not hold it: that of another cluster, or from before a rotation."`
}

// inspected is the report on a whole backup. Restorable is about the given secrets.
type inspected struct {
	backup.Report
	Restorable *bool  `json:"restorable"`        // null: no secret was named
	Problem    string `json:"problem,omitempty"` // the reason why it cannot be restored, or why that is not known
}

// Run reads the whole backup. It fails also when the secrets that were named do not
// open it.
func (c *snapshotInspectCommand) Run(ctx context.Context, std terminal.Streams) error {
	at, err := c.locate(ctx)
	if err != nil {
		return err
	}
	if at.choice != "" {
		fmt.Fprintln(std.Err, "commons: "+at.choice)
	}
	f, err := at.open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	report, err := backup.Inspect(f)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	found, problem := c.check(report)
	return errors.Join(terminal.Show(std.Out, c.JSON, found, inspectedText(c.File, &found)), problem)
}

// check reports whether a backup can be restored; problem is the reason if it cannot.
func (c *snapshotInspectCommand) check(report backup.Report) (found inspected, problem error) {
	found.Report = report
	found.FileBytes = 0 // not shown
	problem = offline.CheckRestorable(report.Info, offline.Offline{SecretFile: c.SecretFile, SourceSecret: c.SourceSecret})
	if errors.Is(problem, cluster.ErrSealedElsewhere) && c.SecretFile == "" && c.SourceSecret == "" {
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
		restorable = terminal.YesNo(*found.Restorable)
	}
	return terminal.Table("BACKUP\t"+file+", whole", [][]any{
		{"created", terminal.TimeText(found.CreatedAt) + " by " + found.Node + ", version " + found.Program},
		{"cluster", fmt.Sprintf("%s, format %d", found.ClusterID, found.Format)},
		{"entries", fmt.Sprintf("%d, up to %s", found.Entries, terminal.TimeText(found.Time))},
		{"log", fmt.Sprintf("index %d, term %d", found.Index, found.Term)},
		{"state", admin.BytesText(uint64(found.ContentBytes))},
		{"digest", found.Digest},
		{"rows", found.Rows},
		{"secret", found.SealedUnder},
		{"restorable", restorable},
	}, func(cells *[]any) []any { return *cells })
}

func entries(n uint64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
