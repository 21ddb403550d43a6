package operate

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/offsite"
)

// stored selects a backup: a file, or an object in a store.
type stored struct {
	offsite.Access `embed:""`
	File           string `arg:"" help:"The backup: a file, or the address of one in a store, s3://… or file://…; the address of the store itself means its newest, of the cluster with the newest upload."`
}

// located is a backup that was found.
type located struct {
	open   func(string) (io.ReadCloser, error)
	purges backup.PurgeList // the newest of its store; empty for a file
	choice string           // names the newest backup of each cluster of the store; empty if there is one cluster
}

func (s *stored) locate(ctx context.Context) (at located, err error) {
	if !offsite.IsURL(s.File) {
		at.open = func(file string) (io.ReadCloser, error) { return os.Open(file) }
		return at, nil
	}
	store, newest, err := offsite.Locate(ctx, s.File, s.Access)
	if err != nil {
		return at, err
	}
	at.open = func(string) (io.ReadCloser, error) { return store.Get(ctx, newest[0].Name) }
	if at.purges, err = offsite.Purges(ctx, store, newest[0].ClusterID); err != nil || len(newest) == 1 {
		return at, err
	}
	at.choice = fmt.Sprintf("%s has backups of %d clusters. The first of these is meant, because its upload is the newest:", s.File, len(newest))
	for _, m := range newest {
		at.choice += fmt.Sprintf("\n  %s/%s, uploaded %s, of index %d, created %s",
			strings.TrimSuffix(s.File, "/"), m.Name, terminal.TimeText(m.UploadedAt), m.Index, terminal.TimeText(m.CreatedAt))
	}
	return at, nil
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
	return terminal.Show(std.Out, c.JSON, found, terminal.Table("BACKUP\tCREATED\tUPLOADED\tINDEX\tENTRIES\tSIZE\tBY\tSECRET\tWHOLE", found, func(m *offsite.Manifest) []any {
		by := "hand"
		if m.Scheduled {
			by = "schedule"
		}
		return []any{m.Name, terminal.TimeText(m.CreatedAt), terminal.TimeText(m.UploadedAt), m.Index, m.Entries, admin.BytesText(uint64(m.Bytes)), by, m.SealedUnder, terminal.YesNo(m.Complete)}
	}))
}
