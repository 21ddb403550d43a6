package state

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// Purge is one entry or profile that was purged.
type Purge struct {
	Number  uint64 // from 1
	Index   uint64 // of the log entry that purged it: what stands before it may hold the text
	At      int64  // milliseconds since the epoch
	Cluster string // that purged it
	ID      string // of an entry, or @ and the folded name of a profile; or RefusedTexts
	// CreatedAt is when the entry was published, or when the profile was changed last.
	CreatedAt int64
	// Since is when the oldest of its texts was written: the disks of the servers that were removed
	// since then may hold it.
	Since int64
}

// RefusedTexts is the ID of the purge of texts that are in the log alone: they were rejected because
// their target is hidden or unknown.
const RefusedTexts = "refused"

// Fields implements Row.
func (p *Purge) Fields(c *Codec) {
	c.Fields(&p.Index, &p.At, &p.CreatedAt, &p.Since, &p.Cluster, &p.ID)
}

// GoneIn returns the purged and the swept entries of a block; nil is the empty set.
func GoneIn(r pebble.Reader, block uint64) (index.Bitmap, error) {
	purged, _, err := GetRow(r, SeqKey(SpacePurgedBits, block))
	if err != nil {
		return nil, err
	}
	swept, _, err := GetRow(r, SeqKey(SpaceSweptBits, block))
	return index.Bitmap(purged).Or(swept), err
}

// A name may erase a few of its texts in a day of log time, and all names together some more,
// because every erased text costs each node a part of a rewrite.

// ErasuresKey is the row that counts the texts that were erased under a name in a day; under all
// names if it is empty.
func ErasuresKey(day command.Day, agentKey string) []byte {
	key := append(DayKey(SpaceBudget, day), 'e')
	if agentKey == "" {
		return key
	}
	return binary.BigEndian.AppendUint64(key, uint64(ProvenSender(agentKey)))
}
