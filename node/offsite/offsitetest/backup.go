package offsitetest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/backup"
)

// Backup returns a backup of a small state of a cluster, whose log ends at an index from 2 on.
func Backup(t testing.TB, clusterID string, createdAt int64, index uint64) []byte {
	t.Helper()
	m := must.Get(fsm.Open(fsm.Options{Dir: t.TempDir()}))(t)
	data := must.Get(command.EncodeBatch(command.Batch{Stamp: createdAt, Groups: []command.Group{{
		Boot: command.BootID{1}, Commands: []command.Command{{Seq: 1, Payload: &command.Init{ClusterID: clusterID, SealedDataKey: []byte("sealed")}}},
	}}}))(t)
	servers := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}})
	m.FSM().ApplyBatch([]*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: servers},
		{Index: index, Term: 1, Type: raft.LogCommand, Data: data},
	})
	e := must.Get(m.Export())(t)
	var out bytes.Buffer
	must.Do(t, errors.Join(backup.Write(&out, e, backup.Info{CreatedAt: createdAt, Node: "n1", SealedUnder: "5ea1"}), e.Close(), m.Close()))
	return out.Bytes()
}
