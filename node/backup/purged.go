package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
)

// PurgeListSuffix is what the name of a backup's purge list ends with.
const PurgeListSuffix = ".purged.json"

// purgeListMode is the mode of purge lists: they say nothing that is not public.
const purgeListMode = 0o644

// PurgeList is all that a cluster has purged. A backup from before has the texts, so a
// list stands beside backups, and a restore purges again what the newest one names.
type PurgeList struct {
	ClusterID string        `json:"clusterId"` // that the list is of
	CreatedAt int64         `json:"createdAt"` // milliseconds since the epoch
	Purged    []PurgedEntry `json:"purged"`
}

// PurgedEntry is an entry that was purged. Its id and time are those that it has in any
// backup of that cluster, and of those that began with its state.
type PurgedEntry struct {
	ClusterID string `json:"clusterId"` // that purged it
	ID        string `json:"id"`
	CreatedAt int64  `json:"createdAt"` // of the entry
}

// Write makes path hold the list.
func (l *PurgeList) Write(path string) error {
	data, err := json.Marshal(l)
	if err == nil {
		err = cluster.WriteFileAtomic(path, append(data, '\n'))
	}
	if err == nil {
		err = os.Chmod(path, purgeListMode)
	}
	if err != nil {
		return fmt.Errorf("write the purge list: %w", err)
	}
	return nil
}

// NewestPurgeList reads lists and returns the one that was made last.
func NewestPurgeList(paths ...string) (newest PurgeList, err error) {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return newest, fmt.Errorf("read the purge list: %w", err)
		}
		var l PurgeList
		if err = json.Unmarshal(data, &l); err == nil && (l.ClusterID == "" || l.CreatedAt == 0) {
			err = errors.New("it names no cluster or no time")
		}
		if err != nil {
			return newest, fmt.Errorf("purge list %s is not whole: %w", path, err)
		}
		if l.CreatedAt > newest.CreatedAt {
			newest = l
		}
	}
	return newest, nil
}

// Purges returns what the list names.
func (l *PurgeList) Purges() []fsm.Purge {
	purges := make([]fsm.Purge, len(l.Purged))
	for i, p := range l.Purged {
		purges[i] = fsm.Purge{Cluster: p.ClusterID, ID: p.ID, CreatedAt: p.CreatedAt}
	}
	return purges
}
