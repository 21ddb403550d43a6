package fsm

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// A flood is many near-duplicates of one long text within an hour of log time, whoever
// sent them: a botnet has as many addresses and names as it likes, and not as many texts.
// The parts of the sketches of what was written without proof are counted, in a bounded
// number of rows.

// floodSlots is how many counts an hour has: 3 MiB at most. Parts of sketches that have
// nothing in common may share one.
const floodSlots = 1 << 18

func floodKey(hour uint64, part []byte) []byte {
	key := binary.BigEndian.AppendUint32([]byte{spaceFlood}, uint32(hour))
	slot := binary.BigEndian.Uint32(part) % floodSlots
	return append(key, byte(slot>>16), byte(slot>>8), byte(slot))
}

// floods reports whether too many texts like that of a command were written in the hour.
func floods(s facts, by command.Signature, standing command.Standing) bool {
	most := settings(s).AlikeHourly
	if most == 0 || standing.Strength > command.Unproven {
		return false
	}
	hour := uint64(s.instant() / hourMillis) //nolint:gosec // not negative
	for part := range slices.Chunk(by.Proof.Sketch, command.SketchPartBytes) {
		if n, _ := read(s, floodKey(hour, part), decodeNumber); n >= most {
			return true
		}
	}
	return false
}

// countAlike counts the text of a command that was carried out.
func (tx *txn) countAlike(by command.Signature, standing command.Standing) {
	if len(by.Proof.Sketch) == 0 || standing.Strength > command.Unproven {
		return
	}
	hour := uint64(tx.now / hourMillis) //nolint:gosec // not negative
	if tx.number(keyFloodHour) != hour {
		tx.keep(keyFloodHour, binary.AppendUvarint(nil, hour))
		tx.dropRange(floodKey(0, make([]byte, 4)), binary.BigEndian.AppendUint32([]byte{spaceFlood}, uint32(hour)))
	}
	for part := range slices.Chunk(by.Proof.Sketch, command.SketchPartBytes) {
		key := floodKey(hour, part)
		n, _ := read(tx, key, decodeNumber)
		tx.keep(key, binary.AppendUvarint(nil, n+1))
	}
}
