package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/logstore"
)

// Where Raft keeps the newest term that it knows, and the term and the candidate of
// its newest vote.
var (
	keyCurrentTerm  = []byte("CurrentTerm")
	keyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
)

// Offline says which node a data directory is for while no process runs on it.
type Offline struct {
	DataDir    string
	NodeID     string // name of the node; "" is the kept one, or the host name
	SecretFile string // of the cluster that is founded; "" for nodes on loopback
}

// Founded is what became of a data directory.
type Founded struct {
	ClusterID string `json:"clusterId"` // of the new cluster
	Former    string `json:"former"`    // id of the cluster that the state comes from
	ServerID  string `json:"serverId"`  // the only voter
	Index     uint64 `json:"index"`
	Entries   uint64 `json:"entries"`
	Digest    string `json:"digest"`         // running digest, hexadecimal
	Rows      string `json:"rows,omitempty"` // digest of the state's rows, hexadecimal
}

// Restore makes an empty data directory that of the first node of a new cluster,
// which begins with the state of a backup. The data key of the backup is sealed
// anew under the node's secret; sourceSecret is the file with the secret that
// it was sealed under, "" when that stands in SecretFile, too. When anything
// fails, also because the backup is damaged, the directory is left as it was.
func Restore(o Offline, file, sourceSecret string) (founded Founded, err error) {
	if err := checkEmpty(o.DataDir); err != nil {
		return founded, err
	}
	f, err := os.Open(file)
	if err != nil {
		return founded, fmt.Errorf("open the backup: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	b, err := backup.NewReader(f)
	if err != nil {
		return founded, err
	}
	defer b.Close()
	sealed, err := o.reseal(b.Info.SealedDataKey, sourceSecret)
	if err != nil {
		return founded, err
	}
	lock, err := cluster.LockDir(o.DataDir)
	if err != nil {
		return founded, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if founded, err = o.restore(b, sealed); err != nil {
		// The mark goes last: whatever is left without it would pass for a node's.
		err = errors.Join(err, emptyDir(o.DataDir, unfinishedFile), emptyDir(o.DataDir))
	}
	return founded, err
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
	as := founding(identity.ServerID, sealed)
	got, err := fsm.Import(fsm.Options{Dir: filepath.Join(o.DataDir, stateDir)}, b.State(), as)
	if err != nil {
		return founded, err
	}
	rows, err := b.Finish()
	if err != nil {
		return founded, err
	}
	founded = Founded{
		ClusterID: as.ClusterID, Former: got.ClusterID, ServerID: identity.ServerID, Index: got.Index, Entries: got.Entries,
		Digest: hex.EncodeToString(got.Rolling[:]), Rows: hex.EncodeToString(got.Rows[:]),
	}
	if founded.Rows != rows || founded.Digest != b.Info.Digest {
		return founded, fmt.Errorf("the restored state has the digest %s, the backup's had %s: the backup is damaged", founded.Rows, rows)
	}
	if err := o.newLog(identity, got.Term); err != nil {
		return founded, err
	}
	return founded, finish(o.DataDir)
}

// newLog makes an empty log for a state of the term, and gives it to the identity.
func (o Offline) newLog(identity cluster.Identity, term uint64) error {
	log, err := logstore.Open(logstore.Options{Path: filepath.Join(o.DataDir, logFile)})
	if err != nil {
		return err
	}
	return errors.Join(log.SetUint64(keyCurrentTerm, term), adopt(o.DataDir, &identity, log, ""), log.Close())
}

// reseal seals a data key under the secret in use that was sealed under another.
func (o Offline) reseal(sealed []byte, sourceSecret string) ([]byte, error) {
	secrets, err := cluster.LoadSecrets(o.SecretFile)
	if err != nil {
		return nil, err
	}
	source := secrets
	if sourceSecret != "" {
		if source, err = cluster.LoadSecrets(sourceSecret); err != nil {
			return nil, err
		}
	}
	key, err := source.Open(sealed, dataKeyContext)
	if errors.Is(err, cluster.ErrSealedElsewhere) {
		return nil, fmt.Errorf("the data key is sealed under the secret %s, which is none of %v; add the secret that it was sealed under as second line to the secret file",
			cluster.SealedUnder(sealed), source.KeyIDs())
	}
	if err != nil {
		return nil, fmt.Errorf("the data key cannot be opened: %w", err)
	}
	return secrets.Seal(key, dataKeyContext)
}

// founding makes a new cluster with one voter.
func founding(serverID string, sealedDataKey []byte) fsm.Founding {
	id := make([]byte, clusterIDBytes)
	_, _ = rand.Read(id) // never fails
	return fsm.Founding{
		ClusterID: hex.EncodeToString(id), SealedDataKey: sealedDataKey,
		Configuration: raft.EncodeConfiguration(alone(serverID)),
	}
}

// alone is the configuration of a cluster with one server.
func alone(serverID string) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(serverID), Address: raft.ServerAddress(serverID)},
	}}
}

// lostAndFound is what a new file system holds.
const lostAndFound = "lost+found"

// checkEmpty refuses a directory that holds anything but what a restore left that
// was cut short.
func checkEmpty(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	command, err := unfinished(dir)
	if err != nil || command == restoring {
		return err
	}
	for _, n := range names {
		// A restore that was cut short before its mark leaves no more than the lock.
		if n.Name() != lostAndFound && n.Name() != cluster.LockFile && n.Name() != unfinishedFile+".tmp" {
			return fmt.Errorf("data directory %s is not empty (it holds %s); a backup is restored into an empty or missing one", dir, n.Name())
		}
	}
	return nil
}

// emptyDir removes everything in a directory but what is to be kept.
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
