package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// sketchChunk is how many registers of a sketch share a row of spaceSenders.
const sketchChunk = 256

// The single rows of spaceTally.
var (
	keyRegistered  = []byte{spaceTally, 'r'} // outside names with an edit_key
	keyUsagePruned = []byte{spaceTally, 'u'} // the day on which usage was pruned
	keyWaiting     = []byte{spaceTally, 'd'} // deliveries that wait
)

func hourKey(hour uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceHour}, uint32(hour))
}

func postedKey(agentKey string) []byte { return append([]byte{spacePosted}, agentKey...) }

func foldKey(boot BootID) []byte { return append([]byte{spaceFold}, boot[:]...) }

func dayKey(space byte, day Day) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, uint32(day))
}

// usageDayKey is the row that counts a day's rows; the others of the day begin
// with its key.
func usageDayKey(day Day) []byte { return dayKey(spaceUsage, day) }

const (
	// usageDayKeyBytes is how long it is.
	usageDayKeyBytes = 1 + 4
	// labelEnd ends an action in a key; no label holds it.
	labelEnd = 0
)

func usageKey(day Day, surface Surface, action, client string) []byte {
	key := append(append(usageDayKey(day), byte(surface)), action...)
	return append(append(key, labelEnd), client...)
}

// parseUsageKey reads a usageKey.
func parseUsageKey(key []byte) (UsageRow, error) {
	action, client, ok := bytes.Cut(key[min(len(key), usageDayKeyBytes+1):], []byte{labelEnd})
	if !ok {
		return UsageRow{}, fmt.Errorf("%w: usage key", ErrCorrupt)
	}
	return UsageRow{
		Day: Day(binary.BigEndian.Uint32(key[1:])), Surface: Surface(key[usageDayKeyBytes]),
		Action: string(action), Client: string(client),
	}, nil
}

func sendersKey(day Day, surface Surface, chunk byte) []byte {
	return append(dayKey(spaceSenders, day), byte(surface), chunk)
}

// dropRange deletes the rows from lower to before upper. They must not be read
// again in the call.
func (tx *txn) dropRange(lower, upper []byte) {
	tx.must(tx.batch.DeleteRange(lower, upper, nil))
	for key := range tx.rows {
		if k := []byte(key); bytes.Compare(k, lower) >= 0 && bytes.Compare(k, upper) < 0 {
			delete(tx.rows, key)
		}
	}
}

// keysOf returns the keys of a space, those written in the call and those that it
// has deleted included, in no order.
func (tx *txn) keysOf(space byte) [][]byte {
	var keys [][]byte
	lower, upper := spaceBounds(space)
	tx.must(scanSpace(tx.db, lower, upper, func(key, _ []byte) error {
		keys = append(keys, append([]byte(nil), key...))
		return nil
	}))
	for key := range tx.rows {
		if key[0] == space {
			keys = append(keys, []byte(key))
		}
	}
	return keys
}
