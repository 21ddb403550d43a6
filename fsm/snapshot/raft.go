package snapshot

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// ForRaft returns the store as Raft uses it.
func (s *Store) ForRaft() raft.SnapshotStore { return raftStore{s} }

type raftStore struct{ s *Store }

// Create begins a snapshot.
func (r raftStore) Create(version raft.SnapshotVersion, index, term uint64,
	config raft.Configuration, configIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("create snapshot: version %d of the metadata is unknown", version)
	}
	return r.s.Create(Meta{
		Index: index, Term: term,
		Configuration: raft.EncodeConfiguration(config), ConfigurationIndex: configIndex,
	}), nil
}

// List returns the snapshots, newest first.
func (r raftStore) List() ([]*raft.SnapshotMeta, error) {
	metas := r.s.List()
	out := make([]*raft.SnapshotMeta, len(metas))
	for i := range metas {
		out[i] = raftMeta(&metas[i])
	}
	return out, nil
}

// Open returns the stream and the metadata of a snapshot. Both are of the current
// state.
func (r raftStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, stream, err := r.s.Stream(id)
	if err != nil {
		return nil, nil, err
	}
	return raftMeta(&meta), stream, nil
}

func raftMeta(m *Meta) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: m.ID, Index: m.Index, Term: m.Term, Size: m.Size,
		Configuration: raft.DecodeConfiguration(m.Configuration), ConfigurationIndex: m.ConfigurationIndex,
	}
}
