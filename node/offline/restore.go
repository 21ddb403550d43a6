package offline

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
)

// Offline describes the node of a data directory on which no process runs.
type Offline struct {
	DataDir    string
	NodeID     string // name of the node; empty means the kept one, or the host name
	SecretFile string // of the new cluster; empty for nodes on loopback
	// SourceSecret is the file with the secret that the data key is sealed under. It is empty
	// if SecretFile has it, too.
	SourceSecret string
	// NewDataKey gives the cluster a new data key, if that secret is lost. Receivers are
	// paused, and the pseudonyms of addresses are replaced.
	NewDataKey bool
	// Purged is a list of purges, those after the backup included.
	Purged backup.PurgeList
	// Fatal is called when the restored state cannot be used, as fsm.Options says. Nil panics.
	Fatal func(error)
	Open  func(backup string) (io.ReadCloser, error) // nil opens a file
}

func (o Offline) open(backup string) (io.ReadCloser, error) {
	if o.Open != nil {
		return o.Open(backup)
	}
	return os.Open(backup)
}

// Founded describes the new cluster in a data directory.
type Founded struct {
	ClusterID string `json:"clusterId"` // of the new cluster
	Former    string `json:"former"`    // id of the cluster that the state comes from
	ServerID  string `json:"serverId"`  // the only voter
	Index     uint64 `json:"index"`
	Entries   uint64 `json:"entries"`
	Digest    string `json:"digest"`         // running digest, hexadecimal
	Rows      string `json:"rows,omitempty"` // digest of the state's rows as they came, hexadecimal
	// NewDataKey is that of Offline.
	NewDataKey bool `json:"newDataKey"`
	// Purged is the number of entries that were purged because of the purge list.
	Purged int `json:"purged"`
	// PurgesUpTo is the time up to which the purges of the former cluster are in the state, in
	// milliseconds since the epoch; 0 if the state is not that of a backup.
	PurgesUpTo int64 `json:"purgesUpTo,omitempty"`
}

// Restore makes an empty data directory that of the first node of a new cluster, which
// begins with the state of a backup. The data key of the backup is sealed under the
// node's secret. After any error, such as a damaged backup, the directory is as it was
// before.
func Restore(o Offline, file string) (founded Founded, err error) {
	if err := checkEmpty(o.DataDir); err != nil {
		return founded, err
	}
	f, err := o.open(file)
	if err != nil {
		return founded, fmt.Errorf("open the backup: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	b, err := backup.NewReader(f)
	if err != nil {
		return founded, err
	}
	defer b.Close()
	sealed, err := o.reseal(b.Info.SealedDataKey)
	if err != nil {
		return founded, err
	}
	defer o.keepOwner(&err)()
	lock, err := cluster.LockDir(o.DataDir)
	if err != nil {
		return founded, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	CloseToOthers(o.DataDir, slog.New(slog.DiscardHandler)) // the node that starts on it warns
	if founded, err = o.restore(b, sealed); err != nil {
		// The mark is removed last: without it, leftovers would look like a node's data.
		err = errors.Join(err, emptyDir(o.DataDir, unfinishedFile), emptyDir(o.DataDir))
	}
	return founded, err
}

// Info returns the beginning of a backup.
func (o Offline) Info(file string) (info backup.Info, err error) {
	f, err := o.open(file)
	if err != nil {
		return info, fmt.Errorf("open the backup: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	b, err := backup.NewReader(f)
	if err != nil {
		return info, err
	}
	defer b.Close()
	return b.Info, nil
}

// CheckRestore tries a restore of a backup in a directory that is empty or missing, or, if it has no
// name, in a new temporary one. It removes the directory afterwards.
func CheckRestore(o Offline, file, dir string) (founded Founded, err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "commons-restore-*"); err != nil {
			return founded, fmt.Errorf("a directory to try the restore in: %w; name another place in TMPDIR", err)
		}
	}
	o.DataDir = dir
	defer func() { err = errors.Join(err, os.RemoveAll(o.DataDir)) }()
	return Restore(o, file)
}

// restore fills the locked directory.
func (o Offline) restore(b *backup.Reader, sealed []byte) (founded Founded, err error) {
	if err := begin(o.DataDir, restoring); err != nil {
		return founded, err
	}
	if err := emptyDir(o.DataDir, unfinishedFile, cluster.LockFile); err != nil {
		return founded, err
	}
	identity, err := cluster.LoadIdentity(o.DataDir, o.NodeID)
	if err != nil {
		return founded, err
	}
	as := o.founding(identity.ServerID, sealed)
	got, err := fsm.Import(fsm.Options{Dir: filepath.Join(o.DataDir, StateDir), Fatal: o.Fatal}, b.State(), as)
	if err != nil {
		return founded, err
	}
	rows, err := b.Finish()
	if err != nil {
		return founded, err
	}
	founded = Founded{
		ClusterID: as.ClusterID, Former: got.ClusterID, ServerID: identity.ServerID, Index: got.Index, Entries: got.Entries,
		Digest: hex.EncodeToString(got.Rolling[:]), Rows: hex.EncodeToString(got.Rows[:]), NewDataKey: o.NewDataKey,
	}
	if founded.Rows != rows || founded.Digest != b.Info.Digest {
		return founded, fmt.Errorf("the restored state has the digest %s, the backup's had %s: the backup is damaged", founded.Rows, rows)
	}
	founded.PurgesUpTo = max(b.Info.Time, o.Purged.CreatedAt)
	if founded.Purged, err = o.purge(); err != nil {
		return founded, err
	}
	if err := o.newLog(identity, got.Term); err != nil {
		return founded, err
	}
	return founded, finish(o.DataDir)
}

const purgedAgain = "Purged before; the backup is older" // the reason of purges from a list

// purge repeats the purges of a list, and erases the texts from the disk.
func (o Offline) purge() (purged int, err error) {
	if len(o.Purged.Purged) == 0 {
		return 0, nil
	}
	machine, err := fsm.Open(fsm.Options{Dir: filepath.Join(o.DataDir, StateDir)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	if purged, err = machine.PurgeListed(o.Purged.Purges(), purgedAgain); err != nil {
		return 0, err
	}
	return purged, machine.Erase(context.Background())
}

// newLog creates an empty log for a state of the term, and assigns it to the identity.
func (o Offline) newLog(identity cluster.Identity, term uint64) error {
	log, err := logstore.Open(logstore.Options{Path: filepath.Join(o.DataDir, LogFile)})
	if err != nil {
		return err
	}
	return errors.Join(log.SetUint64(consensus.KeyCurrentTerm, term), adopt(o.DataDir, &identity, log, ""), log.Close())
}

// reseal returns the data key of the new cluster, sealed under its secret: the key of
// the backup, or a new one.
func (o Offline) reseal(sealed []byte) ([]byte, error) {
	secrets, err := cluster.LoadSecrets(o.SecretFile)
	if err != nil {
		return nil, err
	}
	key := cluster.NewDataKey()
	if !o.NewDataKey {
		if key, err = o.openDataKey(sealed); err != nil {
			return nil, err
		}
	}
	return secrets.SealDataKey(key), nil
}

// CheckRestorable returns nil if this program can restore the backup with the given secrets.
// Other errors than that of a secret file are fsm.ErrNewerFormat and
// cluster.ErrSealedElsewhere.
func CheckRestorable(info backup.Info, o Offline) error {
	if err := command.CheckFormat(info.Format, command.MaxFormat); err != nil {
		return err
	}
	_, err := o.openDataKey(info.SealedDataKey)
	return err
}

func (o Offline) openDataKey(sealed []byte) ([]byte, error) {
	files := []string{o.SecretFile}
	if o.SourceSecret != "" {
		files = append(files, o.SourceSecret)
	}
	var tried []string
	for _, file := range files {
		secrets, err := cluster.LoadSecrets(file)
		if err != nil {
			return nil, err
		}
		key, err := secrets.OpenDataKey(sealed)
		switch {
		case err == nil:
			return key, nil
		case !errors.Is(err, cluster.ErrSealedElsewhere):
			return nil, fmt.Errorf("the data key cannot be opened: %w", err)
		}
		tried = append(tried, secrets.KeyIDs()...)
	}
	under := cluster.SealedUnder(sealed)
	return nil, fmt.Errorf("%w: that is %s, and the files hold %s; name the file that holds it with --old-secret FILE "+
		"(`commons secret rotate` keeps a former secret beside the secret file as %s), or, where nobody has it any more, make a new data key with --new-data-key",
		cluster.ErrSealedElsewhere, under, strings.Join(tried, ", "), filepath.Base(cluster.FormerSecretFile("NAME", under)))
}

// founding makes a new cluster with one voter.
func (o Offline) founding(serverID string, sealedDataKey []byte) fsm.Founding {
	return fsm.Founding{
		ClusterID: cluster.NewClusterID(), SealedDataKey: sealedDataKey, NewDataKey: o.NewDataKey,
		Configuration: raft.EncodeConfiguration(consensus.Alone(serverID)),
	}
}

const lostAndFound = "lost+found" // the directory that a new file system has

// checkEmpty rejects a directory that is not empty, except for the leftovers of an
// interrupted restore.
func checkEmpty(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cmd, err := unfinished(dir)
	if err != nil || cmd == restoring {
		return err
	}
	for _, n := range names {
		// A restore that was interrupted before it set its mark leaves only the lock.
		if n.Name() != lostAndFound && n.Name() != cluster.LockFile && n.Name() != unfinishedFile+".tmp" {
			return fmt.Errorf("data directory %s is not empty (it holds %s); a backup is restored into an empty or missing one", dir, n.Name())
		}
	}
	return nil
}

// emptyDir removes everything in a directory except the names to keep.
func emptyDir(dir string, keep ...string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, n := range names {
		if n.Name() != lostAndFound && !slices.Contains(keep, n.Name()) {
			failed = append(failed, os.RemoveAll(filepath.Join(dir, n.Name())))
		}
	}
	return errors.Join(failed...)
}

// keepOwner returns a function for the end of a command that root runs on a data
// directory. It gives everything in the directory to the owner that the directory, or else
// its closest existing parent, has at the time of the call to keepOwner. Otherwise the
// user that the node runs as could not open the files.
func (o Offline) keepOwner(err *error) (atEnd func()) {
	if os.Geteuid() != 0 {
		return func() {}
	}
	uid, gid, unknown := ownerOf(o.DataDir)
	return func() {
		if unknown != nil {
			*err = errors.Join(*err, unknown)
			return
		}
		root, failed := filepath.EvalSymlinks(o.DataDir) // a walk does not follow a link
		if failed == nil {
			failed = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return os.Lchown(path, uid, gid)
			})
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			*err = errors.Join(*err, fmt.Errorf("the data directory is complete, but not all of it belongs to user %d: %w; correct that with chown -R", uid, failed))
		}
	}
}

// ownerOf returns the owner of a directory, or of its closest existing parent.
func ownerOf(dir string) (uid, gid int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, 0, err
	}
	info, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Dir(dir)
		info, err = os.Stat(dir)
	}
	if err != nil {
		return 0, 0, err
	}
	owner := info.Sys().(*syscall.Stat_t) // on Unix
	return int(owner.Uid), int(owner.Gid), nil
}
