package offsite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/backup"
)

const (
	backupSuffix   = ".commons"
	manifestSuffix = ".json" // after the name of the backup
	timeForm       = "20060102T150405.000Z"

	maxManifestBytes = 64 << 10
	// abandonedAfter is the age from which an unfinished backup made by hand is deleted, and one
	// that was begun so much later.
	abandonedAfter = 24 * time.Hour
)

// Manifest describes a backup in a store.
type Manifest struct {
	Name      string `json:"name"` // of the backup
	ClusterID string `json:"clusterId"`
	CreatedAt int64  `json:"createdAt"` // milliseconds since the epoch; everything acknowledged before is in the backup
	Scheduled bool   `json:"scheduled"` // made by the schedule of the cluster, which deletes it later
	Complete  bool   `json:"complete"`  // read back and verified
	// UploadedAt is the time of the newest upload of the manifest, in milliseconds since the epoch by
	// the clock of the store. Only List sets it.
	UploadedAt int64 `json:"uploadedAt,omitempty"`
	// The others belong to a complete backup.
	Bytes       int64  `json:"bytes,omitempty"`
	Entries     uint64 `json:"entries,omitempty"`
	Index       uint64 `json:"index,omitempty"`
	SealedUnder string `json:"sealedUnder,omitempty"` // public name of the secret that it needs
}

func objectName(clusterID string, at int64, suffix string) string {
	return clusterID + "/" + time.UnixMilli(at).UTC().Format(timeForm) + suffix
}

// Save uploads a backup that was begun at a time, reads it back, and only then marks it as
// complete.
func Save(ctx context.Context, s Store, clusterID string, scheduled bool, at int64, r io.Reader) (m Manifest, err error) {
	m = Manifest{Name: objectName(clusterID, at, backupSuffix), ClusterID: clusterID, CreatedAt: at, Scheduled: scheduled}
	if err := m.write(ctx, s); err != nil {
		return m, err
	}
	if err := s.Put(ctx, m.Name, r); err != nil {
		return m, fmt.Errorf("upload the backup: %w", err)
	}
	stored, err := s.Get(ctx, m.Name)
	if err != nil {
		return m, fmt.Errorf("read the backup back: %w", err)
	}
	defer func() { _ = stored.Close() }() // read only
	report, err := backup.Inspect(stored)
	if err == nil && report.ClusterID != clusterID {
		err = fmt.Errorf("it belongs to the cluster %s", report.ClusterID)
	}
	if err != nil {
		return m, fmt.Errorf("read the backup back: %w", err)
	}
	m.Complete, m.CreatedAt, m.Bytes = true, report.CreatedAt, report.FileBytes
	m.Entries, m.Index, m.SealedUnder = report.Entries, report.Index, report.SealedUnder
	err = m.write(ctx, s)
	return m, err
}

func (m *Manifest) write(ctx context.Context, s Store) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = s.Put(ctx, m.Name+manifestSuffix, bytes.NewReader(data))
	}
	if err != nil {
		return fmt.Errorf("write the manifest of the backup: %w", err)
	}
	return nil
}

// read returns the contents of an object.
func read(ctx context.Context, s Store, name string) ([]byte, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// List returns the manifests of a cluster, or of all clusters if clusterID is empty. Those of the
// cluster with the newest upload of a whole backup come last. Those of one cluster are in the order
// of its log, after those that were never finished. A manifest that is damaged, or whose backup is
// missing or has another size, is not complete.
func List(ctx context.Context, s Store, clusterID string) (found []Manifest, err error) {
	objects, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, o := range objects {
		sizes[o.Name] = o.Bytes
	}
	for _, o := range objects {
		name, is := strings.CutSuffix(o.Name, backupSuffix+manifestSuffix)
		id, _, _ := strings.Cut(name, "/")
		if !is || clusterID != "" && id != clusterID || o.Bytes > maxManifestBytes {
			continue
		}
		var m Manifest
		data, err := read(ctx, s, o.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a run has deleted it meanwhile
		}
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(data, &m) != nil {
			m = Manifest{} // one damaged object must not stop backups, or a restore
		}
		m.Name, m.ClusterID = name+backupSuffix, id // whatever the contents say
		size, there := sizes[m.Name]
		m.Complete = m.Complete && there && size == m.Bytes
		m.UploadedAt = o.Modified.UnixMilli()
		found = append(found, m)
	}
	newest := map[string]int64{} // uploads by cluster
	for _, m := range found {
		if m.Complete {
			newest[m.ClusterID] = max(newest[m.ClusterID], m.UploadedAt)
		}
	}
	slices.SortFunc(found, func(a, b Manifest) int {
		return cmp.Or(
			cmp.Compare(newest[a.ClusterID], newest[b.ClusterID]), cmp.Compare(a.ClusterID, b.ClusterID),
			cmp.Compare(a.Index, b.Index), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Name, b.Name),
		)
	})
	return found, nil
}

// Prune deletes the scheduled backups of a cluster except for the newest ones, and backups that
// were never finished: those that began a day before a run, or a day after it by a clock that was
// ahead, and all scheduled ones that began before it. It returns the creation time of the oldest
// scheduled backup that stays.
func Prune(ctx context.Context, s Store, clusterID string, keep int, run int64) (oldest int64, err error) {
	found, err := List(ctx, s, clusterID)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, m := range slices.Backward(found) {
		before, day := run-m.CreatedAt, abandonedAfter.Milliseconds()
		switch {
		case !m.Complete && before >= -day && (before <= 0 || !m.Scheduled && before <= day),
			m.Complete && !m.Scheduled, m.CreatedAt == 0: // by hand, or its manifest is damaged
			continue
		case m.Complete && keep > 0:
			oldest = m.CreatedAt
			keep--
			continue
		}
		// The manifest goes last: without it the backup would stay for good.
		err := s.Delete(ctx, m.Name)
		if err == nil && !m.Complete {
			err = s.Abandon(ctx, m.Name)
		}
		if err == nil {
			err = s.Delete(ctx, m.Name+manifestSuffix)
		}
		failed = append(failed, err)
		if err != nil {
			oldest = m.CreatedAt
		}
	}
	return oldest, errors.Join(failed...)
}

// Try writes, lists, reads and deletes an object, and returns the reason why the store cannot be used.
func Try(ctx context.Context, s Store, clusterID string) error {
	name := clusterID + "/try-" + rand.Text()
	if err := s.Put(ctx, name, strings.NewReader(name)); err != nil {
		return err
	}
	data, err := read(ctx, s, name)
	if err == nil && string(data) != name {
		err = errors.New("read from the store: an object is not as it was written")
	}
	if err == nil {
		_, err = s.List(ctx)
	}
	return errors.Join(err, s.Delete(ctx, name))
}

// SavePurges uploads a list of purges, and then deletes the older lists of the cluster. The newest
// list is never deleted.
func SavePurges(ctx context.Context, s Store, list *backup.PurgeList) error {
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	name := objectName(list.ClusterID, list.CreatedAt, fmt.Sprintf(".%d%s", list.Index, backup.PurgeListSuffix))
	if err := s.Put(ctx, name, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("upload the purge list: %w", err)
	}
	lists, err := purgeLists(ctx, s, list.ClusterID)
	for _, former := range lists {
		if err == nil && compareLists(former, name) < 0 {
			err = s.Delete(ctx, former)
		}
	}
	return err
}

// purgeLists returns the names of a cluster's lists, the oldest first.
func purgeLists(ctx context.Context, s Store, clusterID string) (names []string, err error) {
	objects, err := s.List(ctx)
	for _, o := range objects {
		if strings.HasPrefix(o.Name, clusterID+"/") && strings.HasSuffix(o.Name, backup.PurgeListSuffix) {
			names = append(names, o.Name)
		}
	}
	slices.SortFunc(names, compareLists)
	return names, err
}

// compareLists compares the names of two lists by the index of the log, and then by time.
func compareLists(a, b string) int {
	index := func(name string) uint64 {
		name = strings.TrimSuffix(name, backup.PurgeListSuffix)
		n, _ := strconv.ParseUint(name[strings.LastIndexByte(name, '.')+1:], 10, 64) // a name of another form is the oldest
		return n
	}
	return cmp.Or(cmp.Compare(index(a), index(b)), cmp.Compare(a, b))
}

// Purges returns the newest list of purges of a cluster. It is empty without one.
func Purges(ctx context.Context, s Store, clusterID string) (list backup.PurgeList, err error) {
	var deleted error // why the list of the last round could not be read
	for last := ""; ; {
		names, err := purgeLists(ctx, s, clusterID)
		if err != nil || len(names) == 0 {
			return list, errors.Join(err, deleted)
		}
		newest := names[len(names)-1]
		data, err := read(ctx, s, newest)
		if errors.Is(err, fs.ErrNotExist) && (last == "" || compareLists(newest, last) > 0) {
			last, deleted = newest, err // SavePurges has replaced it after it was listed
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err = cmp.Or(err, list.Check()); err != nil {
			err = fmt.Errorf("%s: %w", newest, err)
		}
		return list, err
	}
}

// Locate returns the store and the backup at an address: that of a backup, or of a store. In a store
// it finds the newest whole backup of each cluster, that of the newest upload first.
func Locate(ctx context.Context, address string, a Access) (s Store, newest []Manifest, err error) {
	parts := strings.Split(address, "/")
	if n := len(parts) - 2; n > 0 && strings.HasSuffix(address, backupSuffix) {
		s, err = Open(strings.Join(parts[:n], "/"), a)
		return s, []Manifest{{Name: strings.Join(parts[n:], "/"), ClusterID: parts[n]}}, err
	}
	if s, err = Open(address, a); err != nil {
		return s, nil, err
	}
	found, err := List(ctx, s, "")
	for _, m := range slices.Backward(found) {
		if m.Complete && (len(newest) == 0 || newest[len(newest)-1].ClusterID != m.ClusterID) {
			newest = append(newest, m)
		}
	}
	if err == nil && len(newest) == 0 {
		err = fmt.Errorf("%s has no whole backup; see `commons snapshot list %s`", address, address)
	}
	return s, newest, err
}
