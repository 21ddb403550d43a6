package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/logstore"
)

// A cluster is named by its first configuration, the first entry of its log: the
// random parts of the server ids make it unique. So whoever has that entry, and the
// founder before all others, can tell a second cluster that was founded beside it,
// by nodes that did not see a founder whose start was cut short. Raft cannot: both
// logs begin with entry 1 of term 1.

// foundedAs returns the id of the cluster that a log entry founds; "" when it is
// none that does.
func foundedAs(entry *raft.Log) string {
	if entry.Index != 1 || entry.Type != raft.LogConfiguration {
		return ""
	}
	sum := sha256.Sum256(entry.Data)
	return hex.EncodeToString(sum[:clusterIDBytes])
}

// foundedBy returns the id of the cluster that a log begins with; "" when it is
// empty, or its beginning is in a snapshot.
func foundedBy(log *logstore.Store) (string, error) {
	first, err := log.FirstIndex()
	if err != nil || first != 1 {
		return "", err
	}
	var entry raft.Log
	if err := log.GetLog(first, &entry); err != nil {
		return "", err
	}
	return foundedAs(&entry), nil
}

// joinCluster notes the cluster that this node is part of from now on, and reports
// whether it was part of none before.
func (n *Node) joinCluster(id string) bool {
	if id == "" || !n.cluster.CompareAndSwap(nil, &id) {
		return false
	}
	n.port.Joined(id)
	return true
}

var errNotFounded = errors.New("the log of the cluster does not begin with its first configuration")
