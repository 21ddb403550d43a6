package offsite_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/offsite/offsitetest"
)

const own, day = "c0ffee", 24 * 60 * 60 * 1000

// stores calls test with a store of each kind.
func stores(t *testing.T, test func(t *testing.T, s offsite.Store)) {
	t.Helper()
	t.Run("bucket", func(t *testing.T) {
		service := offsitetest.New(t)
		test(t, must.Get(offsite.Open("s3://"+offsitetest.Bucket+"/some/prefix/", service.Access(t)))(t))
	})
	t.Run("directory", func(t *testing.T) {
		test(t, must.Get(offsite.Open("file://"+directory(t), offsite.Access{}))(t))
	})
}

// TestDirectoryThatHangs: a call of a store in a mounted directory that hangs ends with its context.
func TestDirectoryThatHangs(t *testing.T) {
	dir := directory(t)
	store := must.Get(offsite.Open("file://"+dir, offsite.Access{}))(t)
	pipe := filepath.Join(dir, "pipe") // nobody writes to it, so that to open it hangs
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- store.Put(ctx, "cluster/backup", reader) }()
	go func() {
		_, err := store.Get(ctx, "pipe")
		ended <- err
	}()
	must.Get(writer.Write([]byte("the beginning")))(t)
	cancel()
	for range 2 {
		check.Err(t, <-ended, context.Canceled, "a call that hangs")
	}
	must.Do(t, errors.Join(writer.CloseWithError(errors.New("a test")), must.Get(os.OpenFile(pipe, os.O_RDWR, 0))(t).Close()))
	must.Do(t, await.Until(t.Context(), await.Patience, time.Millisecond, func() error { // both have ended
		left, err := filepath.Glob(filepath.Join(dir, "cluster", "*"))
		if err == nil && len(left) > 0 {
			err = errors.New("it is still written")
		}
		return err
	}))
}

// directory returns a new directory with a name that an address may have.
func directory(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "offsite-"+filepath.Base(filepath.Dir(t.TempDir())))
	must.Do(t, os.MkdirAll(dir, 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func names(t *testing.T, s offsite.Store) (found []string) {
	t.Helper()
	for _, o := range must.Get(s.List(t.Context()))(t) {
		found = append(found, o.Name)
	}
	slices.Sort(found)
	return found
}

func contents(t *testing.T, s offsite.Store, name string) string {
	t.Helper()
	r := must.Get(s.Get(t.Context(), name))(t)
	defer func() { _ = r.Close() }()
	return string(must.Get(io.ReadAll(r))(t))
}

func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		ctx := t.Context()
		begin := time.Now().Truncate(time.Second) // as precise as a bucket
		must.Do(t, s.Put(ctx, "a/one", strings.NewReader("first")))
		if at := must.Get(s.List(ctx))(t)[0].Modified; at.Before(begin) {
			t.Errorf("an object of %v was modified at %v", begin, at)
		}
		must.Do(t, s.Put(ctx, "a/one", bytes.NewReader([]byte("second"))))
		must.Do(t, s.Put(ctx, "b/two", strings.NewReader("other")))
		check.Diff(t, names(t, s), []string{"a/one", "b/two"}, "objects")
		check.Equal(t, contents(t, s, "a/one"), "second", "an object that was replaced")

		check.ErrText(t, s.Put(ctx, "a/one", io.MultiReader(strings.NewReader("third"), iotest.ErrReader(errors.New("cut off")))), "cut off", "put")
		check.ErrText(t, s.Put(ctx, "a/new", iotest.ErrReader(errors.New("cut off"))), "cut off", "put")
		check.Diff(t, names(t, s), []string{"a/one", "b/two"}, "objects after uploads that were cut off")
		check.Equal(t, contents(t, s, "a/one"), "second", "an object after an upload that was cut off")

		must.Do(t, errors.Join(s.Delete(ctx, "a/one"), s.Delete(ctx, "a/one"), s.Delete(ctx, "a/missing")))
		check.Diff(t, names(t, s), []string{"b/two"}, "objects after a deletion")
		must.Do(t, offsite.Try(ctx, s, own))
		check.Diff(t, names(t, s), []string{"b/two"}, "objects after a try")
	})
}

// TestMountedFileSystem: a store may be the top of a file system.
func TestMountedFileSystem(t *testing.T) {
	dir := filepath.Join(os.TempDir(), "offsite-"+filepath.Base(filepath.Dir(t.TempDir()))) // a name that an address may have
	found := filepath.Join(dir, "lost+found")
	must.Do(t, os.MkdirAll(found, 0o700))
	t.Cleanup(func() { _ = errors.Join(os.Chmod(found, 0o700), os.RemoveAll(dir)) }) //nolint:gosec // a directory
	must.Do(t, os.WriteFile(filepath.Join(found, "1"), nil, 0o600))                  // root lists it
	must.Do(t, os.Chmod(found, 0))                                                   // others cannot
	s := must.Get(offsite.Open("file://"+dir, offsite.Access{}))(t)
	must.Do(t, s.Put(t.Context(), "a/one", strings.NewReader("first")))
	check.Diff(t, names(t, s), []string{"a/one"}, "objects")
	info := must.Get(os.Stat(filepath.Join(dir, "a", "one")))(t)
	check.Equal(t, info.Mode().Perm(), 0o600, "mode of an object")
}

// sharedStore is a store that another process changes after each list.
type sharedStore struct {
	offsite.Store
	change func(ctx context.Context) error
}

func (s sharedStore) List(ctx context.Context) ([]offsite.Object, error) {
	found, err := s.Store.List(ctx)
	return found, errors.Join(err, s.change(ctx))
}

// TestListWhileAnotherDeletes: a manifest that a run deletes after the store was listed does
// not hide the other backups.
func TestListWhileAnotherDeletes(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		old, kept := must.Get(save(t, s, own, true, day))(t), must.Get(save(t, s, own, true, 2*day))(t)
		shared := sharedStore{s, func(ctx context.Context) error { return s.Delete(ctx, old.Name+".json") }}
		check.Equal(t, whole(t, shared), kept.Name, "backups")
		_, err := s.Get(t.Context(), old.Name+".json")
		check.Equal(t, errors.Is(err, fs.ErrNotExist), true, "a missing object is reported as such")
	})
}

// TestPurgesWhileAnotherDeletes: a reader of lists of purges passes to the successor of a list
// that another node replaces meanwhile. A list that disappears without a successor is an error.
func TestPurgesWhileAnotherDeletes(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		at := int64(day)
		replace := func(ctx context.Context) error {
			if at < 3*day {
				at += day
			}
			return offsite.SavePurges(ctx, s, &backup.PurgeList{ClusterID: own, CreatedAt: at, Index: 1})
		}
		must.Do(t, offsite.SavePurges(t.Context(), s, &backup.PurgeList{ClusterID: own, CreatedAt: at, Index: 1}))
		check.Equal(t, must.Get(offsite.Purges(t.Context(), sharedStore{s, replace}, own))(t).CreatedAt, 3*day, "creation of the list")

		remove := func(ctx context.Context) error { return s.Delete(ctx, own+"/19700104T000000.000Z.1.purged.json") }
		_, err := offsite.Purges(t.Context(), sharedStore{s, remove}, own)
		check.Err(t, err, fs.ErrNotExist, "read a list that disappears")
	})
}

// TestLargeUploadsGoInParts bounds the memory of an upload of unknown size.
func TestLargeUploadsGoInParts(t *testing.T) {
	t.Parallel()
	service := offsitetest.New(t)
	s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, service.Access(t)))(t)
	const size, part = 40 << 20, 16 << 20
	must.Do(t, s.Put(t.Context(), "large", io.LimitReader(zeros{}, size)))
	check.Equal(t, must.Get(s.List(t.Context()))(t)[0].Bytes, size, "bytes of the object")
	if largest := service.LargestBody(); largest > part+part/8 {
		t.Errorf("a request had %d bytes, parts have %d", largest, part)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// stream returns a backup as a node sends it, without its length.
func stream(t *testing.T, cluster string, at int64) io.Reader {
	t.Helper()
	return io.MultiReader(bytes.NewReader(offsitetest.Backup(t, cluster, at, 2)))
}

func save(t *testing.T, s offsite.Store, cluster string, scheduled bool, at int64) (offsite.Manifest, error) {
	t.Helper()
	return offsite.Save(t.Context(), s, cluster, scheduled, at, stream(t, cluster, at))
}

// saveIndex saves a scheduled backup whose log ends at an index.
func saveIndex(t *testing.T, s offsite.Store, cluster string, at int64, index uint64) offsite.Manifest {
	t.Helper()
	return must.Get(offsite.Save(t.Context(), s, cluster, true, at, io.MultiReader(bytes.NewReader(offsitetest.Backup(t, cluster, at, index)))))(t)
}

// TestOrderOfTheLog: the newest backup of a cluster is that with the highest index of the log, also if
// the clocks were ahead before.
func TestOrderOfTheLog(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		third, first, second := saveIndex(t, s, own, day, 300), saveIndex(t, s, own, 2*day, 100), saveIndex(t, s, own, 3*day, 200)
		check.Equal(t, whole(t, s), first.Name+" "+second.Name+" "+third.Name, "backups, the oldest first")
		oldest := must.Get(offsite.Prune(t.Context(), s, own, 2, day))(t)
		check.Equal(t, oldest, second.CreatedAt, "creation of the oldest that stays")
		check.Equal(t, whole(t, s), second.Name+" "+third.Name, "backups that stay")
	})
}

// TestPruneKeepsWhatIsNotItsOwn: only scheduled backups of the cluster, and uploads that were
// never finished, are deleted.
func TestPruneKeepsWhatIsNotItsOwn(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		for _, b := range []struct {
			cluster   string
			scheduled bool
			at        int64
		}{{own, true, day}, {own, false, 2 * day}, {own, true, 3 * day}, {"other", true, day}, {own, true, 5 * day}, {own, true, 6 * day}} {
			m := must.Get(save(t, s, b.cluster, b.scheduled, b.at))(t)
			check.Equal(t, m.Complete, true, "complete")
		}
		for at, scheduled := range map[int64]bool{
			4 * day: false, 6*day - 1000: false, 6*day - 2000: true, 6*day + 1000: true,
			7*day + 1000: true, 7*day + 2000: false, // by clocks that were ahead
		} {
			_, err := offsite.Save(t.Context(), s, own, scheduled, at, iotest.ErrReader(errors.New("cut off")))
			check.ErrText(t, err, "cut off", "save")
		}
		must.Do(t, errors.Join(s.Put(t.Context(), "stranger", strings.NewReader("x")), s.Put(t.Context(), own+"/19700101T000000.000Z.commons.json", strings.NewReader("x"))))

		oldest := must.Get(offsite.Prune(t.Context(), s, own, 2, 6*day))(t)
		check.Equal(t, oldest, 5*day, "creation of the oldest that stays")
		const at = "T000000.000Z.commons"
		check.Diff(t, names(t, s), []string{
			own + "/19700101T000000.000Z.commons.json",               // damaged
			own + "/19700103" + at, own + "/19700103" + at + ".json", // by hand
			own + "/19700106" + at, own + "/19700106" + at + ".json",
			own + "/19700106T235959.000Z.commons.json", // by hand, may still be uploaded
			own + "/19700107" + at, own + "/19700107" + at + ".json",
			own + "/19700107T000001.000Z.commons.json", // of the next leader
			"other/19700102" + at, "other/19700102" + at + ".json",
			"stranger",
		}, "objects")
	})
}

// TestOneDamagedObjectDoesNotCount holds that a manifest alone makes no backup, and a damaged one stops none.
func TestOneDamagedObjectDoesNotCount(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		good := must.Get(save(t, s, own, true, day))(t)
		for i, damage := range []func(name string) error{
			func(name string) error { return s.Put(t.Context(), name+".json", strings.NewReader(`{"createdAt":17`)) },
			func(name string) error { return s.Delete(t.Context(), name) },
			func(name string) error { return s.Put(t.Context(), name, strings.NewReader("short")) },
		} {
			m := must.Get(save(t, s, own, true, int64(i+6)*day))(t)
			must.Do(t, damage(m.Name))
		}
		_, err := offsite.Save(t.Context(), s, own, true, 4*day, strings.NewReader("no backup"))
		check.ErrText(t, err, "read the backup back", "save")
		_, err = offsite.Save(t.Context(), s, own, true, 5*day, stream(t, "other", 5*day))
		check.ErrText(t, err, "it belongs to the cluster other", "save")
		var whole []string
		for _, m := range must.Get(offsite.List(t.Context(), s, ""))(t) {
			if m.Complete {
				whole = append(whole, m.Name)
			}
		}
		check.Diff(t, whole, []string{good.Name}, "backups that count")
	})
}

func TestNewestPurgesCount(t *testing.T) {
	stores(t, func(t *testing.T, s offsite.Store) {
		t.Helper()
		for _, list := range []backup.PurgeList{
			{ClusterID: own, CreatedAt: 2 * day, Index: 9, Purged: []backup.PurgedEntry{{ID: "e1"}, {ID: "e2"}}},
			{ClusterID: own, CreatedAt: day, Index: 9},
			{ClusterID: "other", CreatedAt: 3 * day, Index: 1},
		} {
			must.Do(t, offsite.SavePurges(t.Context(), s, &list))
		}
		check.Equal(t, len(must.Get(offsite.Purges(t.Context(), s, own))(t).Purged), 2, "purges of the newest list")
		check.Equal(t, must.Get(offsite.Purges(t.Context(), s, "c0ffe"))(t).CreatedAt, 0, "time of the list of a cluster without one")
		must.Do(t, offsite.SavePurges(t.Context(), s, &backup.PurgeList{ClusterID: own, CreatedAt: 4 * day, Index: 10}))
		check.Diff(t, names(t, s), []string{own + "/19700105T000000.000Z.10.purged.json", "other/19700104T000000.000Z.1.purged.json"}, "lists that are left")

		const former, newest = own + "/19700108T000000.000Z.99.purged.json", own + "/19700106T000000.000Z.100.purged.json" // by clocks that were ahead, and then set right
		must.Do(t, offsite.SavePurges(t.Context(), s, &backup.PurgeList{ClusterID: own, CreatedAt: 7 * day, Index: 99}))
		check.Diff(t, names(t, s)[:1], []string{former}, "the list with the higher index")
		must.Do(t, offsite.SavePurges(t.Context(), s, &backup.PurgeList{ClusterID: own, CreatedAt: 5 * day, Index: 100}))
		must.Do(t, offsite.SavePurges(t.Context(), s, &backup.PurgeList{ClusterID: own, CreatedAt: 6 * day, Index: 98}))
		check.Equal(t, must.Get(offsite.Purges(t.Context(), s, own))(t).Index, 100, "index of the newest list")
		check.Diff(t, slices.Contains(names(t, s), newest), true, "the newest list is left")
		check.Diff(t, slices.Contains(names(t, s), former), false, "an older list is left")
	})
}

func TestLocate(t *testing.T) {
	t.Parallel()
	service := offsitetest.New(t)
	access, address := service.Access(t), "s3://"+offsitetest.Bucket+"/p"
	s := must.Get(offsite.Open(address, access))(t)
	_, _, err := offsite.Locate(t.Context(), address, access)
	check.ErrText(t, err, "has no whole backup", "locate in an empty store")
	first, second := must.Get(save(t, s, own, true, day))(t), must.Get(save(t, s, own, true, 2*day))(t)
	for at, want := range map[string]string{address: second.Name, address + "/" + first.Name: first.Name} {
		_, newest, err := offsite.Locate(t.Context(), at, access)
		check.Err(t, err, nil, "locate %s", at)
		check.Equal(t, len(newest), 1, "clusters at %s", at)
		check.Equal(t, newest[0].Name, want, "the backup at %s", at)
		check.Equal(t, newest[0].ClusterID, own, "its cluster")
	}
}

// TestLocateAmongClusters: of two clusters in a store, that of the newest upload by the clock of the
// store comes first. Its newest backup is that of the highest index.
func TestLocateAmongClusters(t *testing.T) {
	dir := directory(t)
	s := must.Get(offsite.Open("file://"+dir, offsite.Access{}))(t)
	uploaded := func(cluster string, at int64, index uint64, ago time.Duration) offsite.Manifest {
		t.Helper()
		m := saveIndex(t, s, cluster, at, index)
		modified := time.Now().Add(-ago)
		must.Do(t, os.Chtimes(filepath.Join(dir, m.Name+".json"), modified, modified))
		return m
	}
	former := uploaded("former", 9*day, 900, 2*time.Hour) // by clocks that were ahead
	uploaded(own, 3*day, 10, time.Hour)
	newest := uploaded(own, 2*day, 20, 3*time.Hour)
	_, found, err := offsite.Locate(t.Context(), "file://"+dir, offsite.Access{})
	must.Do(t, err)
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = m.Name
	}
	check.Diff(t, names, []string{newest.Name, former.Name}, "the newest backup of each cluster")
}

// TestFaults: after a fault of the service no backup counts, the error has a remedy, and the
// next attempt succeeds.
func TestFaults(t *testing.T) {
	t.Parallel()
	on := func(method string, fault func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			hit := r.Method == method && strings.Contains(r.URL.Path, ".commons") && !strings.HasSuffix(r.URL.Path, ".json")
			if hit {
				fault(w, r)
			}
			return hit
		}
	}
	fails := func(status int, code string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { offsitetest.Fail(w, status, code) }
	}
	cancelled, cancel := context.WithCancel(t.Context())
	for _, tc := range []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request) bool
		says  string
	}{
		{"the service is overloaded", on(http.MethodPut, fails(http.StatusServiceUnavailable, "SlowDown")), "SlowDown"},
		{"the service forgets the bucket", on(http.MethodPut, fails(http.StatusNotFound, "NoSuchBucket")), "create the bucket"},
		{"the bucket is full", on(http.MethodPut, fails(http.StatusInsufficientStorage, "XMinioStorageFull")), "XMinioStorageFull"},
		{"the rights are missing", on(http.MethodPut, fails(http.StatusForbidden, "AccessDenied")), "--backup-credentials"},
		{"the region is another", on(http.MethodPut, fails(http.StatusBadRequest, "AuthorizationHeaderMalformed")), "--backup-region"},
		{"the upload is cut off", on(http.MethodPut, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		}), "upload the backup"},
		{"the end of the upload is lost", func(w http.ResponseWriter, r *http.Request) bool {
			hit := r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
			if hit {
				offsitetest.Fail(w, http.StatusInternalServerError, "InternalError")
			}
			return hit
		}, "InternalError"},
		{"reading back is cut off", on(http.MethodGet, func(w http.ResponseWriter, r *http.Request) {
			offsitetest.Cut(w, r, zeros{}, 100)
		}), "read the backup back"},
		{"the backup changed in the store", on(http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			offsitetest.Describe(w)
			_, _ = w.Write(bytes.Repeat([]byte{1}, 500))
		}), "not a whole backup"},
		{"the service hangs", on(http.MethodPut, func(w http.ResponseWriter, r *http.Request) {
			cancel()
			offsitetest.Hang(w, r)
		}), "context canceled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			service := offsitetest.New(t)
			s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, service.Access(t)))(t)
			before := must.Get(save(t, s, own, true, day))(t)
			service.Break(tc.fault)
			ctx := t.Context()
			if tc.name == "the service hangs" {
				ctx = cancelled
			}
			_, err := offsite.Save(ctx, s, own, true, 2*day, stream(t, own, 2*day))
			check.ErrText(t, err, tc.says, "save")
			if err != nil && strings.Contains(err.Error(), offsitetest.Secret) {
				t.Errorf("the error holds the secret: %v", err)
			}
			service.Break(nil)
			check.Equal(t, whole(t, s), before.Name, "backups that count")
			after := must.Get(save(t, s, own, true, 3*day))(t)
			check.Equal(t, whole(t, s), before.Name+" "+after.Name, "backups that count after another attempt")
			must.Get(offsite.Prune(t.Context(), s, own, 1, 3*day))(t)
			check.Equal(t, whole(t, s), after.Name, "backups that count after old ones were deleted")
		})
	}
}

// whole returns the names of the backups that count.
func whole(t *testing.T, s offsite.Store) string {
	t.Helper()
	var names []string
	for _, m := range must.Get(offsite.List(t.Context(), s, own))(t) {
		if m.Complete {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestLockedObjectsStay: a bucket that forbids deletions keeps every backup, and says so.
func TestLockedObjectsStay(t *testing.T) {
	t.Parallel()
	service := offsitetest.New(t)
	s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, service.Access(t)))(t)
	first, second := must.Get(save(t, s, own, true, day))(t), must.Get(save(t, s, own, true, 2*day))(t)
	service.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			offsitetest.Fail(w, http.StatusForbidden, "AccessDenied")
		}
		return r.Method == http.MethodDelete
	})
	oldest, err := offsite.Prune(t.Context(), s, own, 1, 2*day)
	check.ErrText(t, err, "delete in the bucket", "prune")
	check.Equal(t, oldest, day, "creation of the oldest that stays")
	check.Equal(t, whole(t, s), first.Name+" "+second.Name, "backups that count")
	check.ErrText(t, offsite.Try(t.Context(), s, own), "delete in the bucket", "try")
}

// TestTryLeavesNothing: a key that may write and not read leaves no object behind.
func TestTryLeavesNothing(t *testing.T) {
	service := offsitetest.New(t)
	s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, service.Access(t)))(t)
	service.Break(func(w http.ResponseWriter, r *http.Request) bool {
		reads := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "try-")
		if reads {
			offsitetest.Fail(w, http.StatusForbidden, "AccessDenied")
		}
		return reads
	})
	check.ErrText(t, offsite.Try(t.Context(), s, own), "read in the bucket", "try")
	check.Diff(t, service.Names(t), []string(nil), "objects after a try")
}

// TestCredentialsOfASection: a file with several sections has the credentials of one of them.
func TestCredentialsOfASection(t *testing.T) {
	service := offsitetest.New(t)
	access := service.Access(t)
	const (
		right = "aws_access_key_id = " + offsitetest.KeyID + "\naws_secret_access_key=" + offsitetest.Secret + "\n"
		wrong = "aws_access_key_id = ANOTHER\naws_secret_access_key = sesame\naws_session_token = sesame\n"
	)
	for name, tc := range map[string]struct{ file, profile, says string }{
		"no section":                {"# the key\n" + right, "", ""},
		"no section, and a profile": {right, "prod", ""},
		"default before another":    {"[default]\n" + right + "[prod]\n" + wrong, "", ""},
		"default behind another":    {"[prod]\n" + wrong + "\n[ default ]\n" + right, "", ""},
		"lines before a section":    {right + "[prod]\n" + wrong, "", ""},
		"a profile":                 {"[default]\n" + wrong + "[prod]\n" + right + "[test]\n" + wrong, "prod", ""},
		"a comment":                 {"[default]\n" + right + "; [prod]\n# aws_session_token = sesame\n", "", ""},
		"no default":                {"# a = comment\n\n[prod]\n" + right + "[test]\n" + wrong, "", "has no section [default]; name another one with AWS_PROFILE"},
		"no such profile":           {"[default]\n" + right, "prod", "has no section [prod], which AWS_PROFILE names"},
		"a section without a key":   {"[default]\n" + right + "[prod]\nregion = x\n", "prod", "[prod] of " + access.Credentials + " holds no key and secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_PROFILE", tc.profile)
			must.Do(t, os.WriteFile(access.Credentials, []byte(tc.file), 0o600))
			s, err := offsite.Open("s3://"+offsitetest.Bucket, access)
			if tc.says == "" {
				must.Do(t, err)
				check.Err(t, offsite.Try(t.Context(), s, own), nil, "try")
				return
			}
			check.ErrText(t, err, tc.says, "open")
		})
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	service := offsitetest.New(t)
	wrong := service.Access(t)
	must.Do(t, os.WriteFile(wrong.Credentials, []byte("AWS_ACCESS_KEY_ID=ANOTHER\nAWS_SECRET_ACCESS_KEY = "+offsitetest.Secret+"\n"), 0o600))
	s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, wrong))(t)
	check.ErrText(t, offsite.Try(t.Context(), s, own), "check the key in --backup-credentials", "try with another key")
	must.Do(t, os.WriteFile(wrong.Credentials, []byte("aws_secret_access_key "+offsitetest.Secret+"\n"), 0o600))
	for _, tc := range []struct {
		name, address string
		access        offsite.Access
		says          string
	}{
		{"plain http", "s3://backups", offsite.Access{Endpoint: "http://192.0.2.1:9000"}, "http:// is for loopback"},
		{"a user", "s3://backups", offsite.Access{Endpoint: "https://id:sesame@s3.example"}, "without user"},
		{"a query", "s3://backups", offsite.Access{Endpoint: "https://s3.example?key=sesame"}, "without user, path and query"},
		{"no URL", "s3://backups", offsite.Access{Endpoint: "https://sesame:%zz"}, "not a URL"},
		{"no credentials", "s3://backups", wrong, "holds no key and secret"},
		{"no file", "s3://backups", offsite.Access{Endpoint: "https://s3.example", Credentials: "/missing"}, "--backup-credentials"},
		{"a user in the address", "s3://id:sesame@backups/x", offsite.Access{}, "without user"},
		{"a query in the address", "s3://backups/x?key=sesame", offsite.Access{}, "without user"},
		{"a way out", "file:///backups/../sesame", offsite.Access{}, "not the address of a store"},
		{"a relative directory", "file://sesame", offsite.Access{}, "not the address of a store"},
		{"another scheme", "https://sesame", offsite.Access{}, "not the address of a store"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := offsite.Open(tc.address, tc.access)
			check.ErrText(t, err, tc.says, "open")
			if err != nil && (strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), offsitetest.Secret)) {
				t.Errorf("the error repeats credentials: %v", err)
			}
		})
	}
	missing := must.Get(offsite.Open("file:///missing", offsite.Access{}))(t)
	check.ErrText(t, offsite.Try(t.Context(), missing, own), "mount or create the directory", "try")
}
