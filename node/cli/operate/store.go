package operate

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/offsite"
)

// stored selects a backup: a file, or an object in a store.
type stored struct {
	offsite.Access `embed:""`
	File           string `arg:"" help:"The backup: a file, or the address of one in a store, s3://… or file://…; the address of the store itself means its newest."`
}

// locate returns a function that opens the backup, and the newest list of purges of its store,
// which is empty for a file.
func (s *stored) locate(ctx context.Context) (open func(string) (io.ReadCloser, error), list backup.PurgeList, err error) {
	if !offsite.IsURL(s.File) {
		return func(file string) (io.ReadCloser, error) { return os.Open(file) }, list, nil
	}
	store, found, err := offsite.Locate(ctx, s.File, s.Access)
	if err == nil {
		list, err = offsite.Purges(ctx, store, found.ClusterID)
	}
	return func(string) (io.ReadCloser, error) { return store.Get(ctx, found.Name) }, list, err
}

// upload saves a backup in a store, which reads it back, and the list of purges.
func (c *snapshotSaveCommand) upload(ctx context.Context, std terminal.Streams, client *admin.Client) error {
	start := time.Now()
	store, err := offsite.Open(c.File, c.Access)
	if err != nil {
		return fmt.Errorf("nothing was saved: %w", err)
	}
	list, err := fetchPurgeList(ctx, client)
	if err != nil {
		return fmt.Errorf("nothing was saved: %w", err)
	}
	stream, err := client.Stream(ctx, admin.PathSnapshot, nil)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // read to its end
	saved, err := offsite.Save(ctx, store, list.ClusterID, false, list.CreatedAt, stream)
	if err != nil {
		return fmt.Errorf("nothing was saved: %w", err)
	}
	c.record(ctx, std, client, backup.Info{CreatedAt: saved.CreatedAt})
	if list, err = fetchPurgeList(ctx, client); err == nil {
		err = offsite.SavePurges(ctx, store, &list)
	}
	if err != nil {
		return fmt.Errorf("%s is whole, and the list of what was purged could not be saved beside it: %w; repeat", saved.Name, err)
	}
	return terminal.Show(std.Out, c.JSON, saved, fmt.Sprintf("saved and read back %s: %s up to index %d, %s in %v",
		saved.Name, entries(saved.Entries), saved.Index, admin.BytesText(uint64(saved.Bytes)), time.Since(start).Round(time.Millisecond)))
}

type snapshotListCommand struct {
	offsite.Access `embed:""`
	Store          string `arg:"" help:"Address of the store: s3://BUCKET/PREFIX or file:///DIRECTORY."`
	JSON           bool   `name:"json" help:"Print JSON."`
}

// Run lists also backups that do not count, because an operator may wonder about them.
func (c *snapshotListCommand) Run(ctx context.Context, std terminal.Streams) error {
	store, err := offsite.Open(c.Store, c.Access)
	if err != nil {
		return err
	}
	found, err := offsite.List(ctx, store, "")
	if err != nil {
		return err
	}
	return terminal.Show(std.Out, c.JSON, found, terminal.Table("BACKUP\tCREATED\tENTRIES\tSIZE\tBY\tSECRET\tWHOLE", found, func(m *offsite.Manifest) []any {
		by := "hand"
		if m.Scheduled {
			by = "schedule"
		}
		return []any{m.Name, terminal.TimeText(m.CreatedAt), m.Entries, admin.BytesText(uint64(m.Bytes)), by, m.SealedUnder, terminal.YesNo(m.Complete)}
	}))
}
