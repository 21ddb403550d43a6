package node

import (
	"testing"

	"github.com/hashicorp/raft"
)

func TestClusterIsNamedByItsFirstConfiguration(t *testing.T) {
	entry := func(index uint64, kind raft.LogType, id string) *raft.Log {
		return &raft.Log{Index: index, Term: 1, Type: kind, Data: raft.EncodeConfiguration(alone(id))}
	}
	first := foundedAs(entry(1, raft.LogConfiguration, "a-1"))
	if len(first) != 2*clusterIDBytes || foundedAs(entry(1, raft.LogConfiguration, "a-1")) != first {
		t.Errorf("the name is %q", first)
	}
	if other := foundedAs(entry(1, raft.LogConfiguration, "a-2")); other == first {
		t.Error("two clusters have one name")
	}
	for _, e := range []*raft.Log{entry(2, raft.LogConfiguration, "a-1"), entry(1, raft.LogCommand, "a-1")} {
		if id := foundedAs(e); id != "" {
			t.Errorf("entry %d of type %v founds cluster %s", e.Index, e.Type, id)
		}
	}
}
