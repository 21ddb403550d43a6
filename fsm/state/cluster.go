package state

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Cluster is the cluster's id and data key, from Init or from the founding of a new
// cluster.
type Cluster struct {
	ID        string
	SealedKey []byte
	Founding  string // to be recorded by the first leader: action, space, clusters; else ""
}

// Fields implements Row.
func (c *Cluster) Fields(x *Codec) { x.Fields(&c.ID, &c.SealedKey, &c.Founding) }

// LoadCluster reads the identity of the cluster; zero before Init.
func LoadCluster(r pebble.Reader) (Cluster, error) { return LoadOrZero(r, KeyCluster, Decode[Cluster]) }

// Configuration is the newest Raft configuration, in Raft's own encoding.
type Configuration struct {
	Index uint64
	Data  []byte
}

// Fields implements Row.
func (c *Configuration) Fields(x *Codec) {
	x.Fields(&c.Index, &c.Data)
}

// LoadConfiguration reads the newest configuration; zero before the first.
func LoadConfiguration(r pebble.Reader) (Configuration, error) {
	return LoadOrZero(r, KeyConfig, Decode[Configuration])
}

// LoadFormat reads the replicated format number.
func LoadFormat(r pebble.Reader) (int, error) {
	n, ok, err := Load(r, KeyFormat, DecodeNumber)
	if err != nil || !ok {
		return command.InitialFormat, err
	}
	return int(n), nil //nolint:gosec // bounded when it was set
}

// BackupRun is the newest run of the schedule of backups to the present store. Times are in
// milliseconds since the epoch; 0 means never.
type BackupRun struct {
	Began   int64  `json:"began"`
	Saved   int64  `json:"saved"`   // when the newest backup of the schedule was begun
	Oldest  int64  `json:"oldest"`  // when the oldest backup in the store was begun
	Failed  bool   `json:"failed"`  // the run saved no backup
	Problem string `json:"problem"` // of the run
	// Verified is when the newest backup was begun that a node has restored, and Doubt why a newer
	// one could not be restored.
	Verified int64  `json:"verified"`
	Doubt    string `json:"doubt"`
}

// Fields implements Row.
func (b *BackupRun) Fields(c *Codec) {
	c.Fields(&b.Began, &b.Saved, &b.Oldest, &b.Failed, &b.Problem, &b.Verified, &b.Doubt)
}
