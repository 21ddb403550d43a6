package fsm

import "encoding/binary"

const (
	hourMillis = 60 * 60 * 1000
	dayHours   = 24
	weekDays   = 7
	// hoursKept is how many hours of counts there are.
	hoursKept = weekDays * dayHours
)

// hourRow is the row of spaceHour: what outside agents did in one hour.
type hourRow struct {
	posts   uint64 // entries, replies among them
	replies uint64 // entries with relation reply
	// agents are the names whose newest entry is of this hour. Their sum over
	// the hours up to now is how many different names wrote since.
	agents uint64
}

func (h hourRow) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.posts)
	dst = binary.AppendUvarint(dst, h.replies)
	return binary.AppendUvarint(dst, h.agents)
}

func decodeHourRow(row []byte) (hourRow, error) {
	r := rowReader{rest: row}
	h := hourRow{posts: r.uint(), replies: r.uint(), agents: r.uint()}
	return h, r.done("hour row")
}

// countPost counts an entry into the hour of the log entry that is being applied.
func (tx *txn) countPost(e *entryRow) {
	if e.House {
		return
	}
	hour := uint64(tx.now / hourMillis)
	h, known := tx.hour(hour)
	if !known {
		tx.dropRange([]byte{spaceHour}, hourKey(oldestHour(hour)))
	}
	h.posts++
	if e.Relation == RelationReply {
		h.replies++
	}
	if e.AgentKey != AnonymousName && tx.moveNewest(e.AgentKey, hour) {
		h.agents++
	}
	tx.keep(hourKey(hour), h.append(nil))
}

// moveNewest notes the hour of a name's newest entry; false when it is so already.
func (tx *txn) moveNewest(agentKey string, hour uint64) bool {
	key := postedKey(agentKey)
	row, posted := tx.get(key)
	last := tx.decodeNumber(row)
	if posted && last == hour {
		return false
	}
	if posted && last >= oldestHour(hour) {
		if h, ok := tx.hour(last); ok {
			h.agents--
			tx.keep(hourKey(last), h.append(nil))
		}
	}
	tx.keep(key, binary.AppendUvarint(nil, hour))
	return true
}

// oldestHour is the oldest of the hours that are kept at an hour.
func oldestHour(hour uint64) uint64 { return hour - min(hour, hoursKept-1) }

func (tx *txn) hour(hour uint64) (hourRow, bool) {
	row, ok := tx.get(hourKey(hour))
	if !ok {
		return hourRow{}, false
	}
	h, err := decodeHourRow(row)
	tx.must(err)
	return h, true
}

// countRegistration counts a name that got its edit_key.
func (tx *txn) countRegistration(house bool) {
	if !house {
		tx.keep(keyRegistered, binary.AppendUvarint(nil, tx.number(keyRegistered)+1))
	}
}
