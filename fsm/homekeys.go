package fsm

import (
	"encoding/binary"
	"fmt"
)

// part is one of the lists that are kept for an agent, so that home costs what
// it shows and nothing else. Seqs lie behind the part in the key; a list is in
// their order.
type part byte

// The parts. The letters stand in keys.
const (
	partActivity part = 'a' // nothing: with whom the agent talks and what it has in the pools, see activity.go
	partTopic    part = 't' // topic: how many entries the agent wrote to it and when, see activity.go
	partInbox    part = 'i' // seq8: why; everything that concerns the agent
	partOwed     part = 'w' // seq8: why; what of it the agent has not answered
	partAsked    part = 'q' // seq8: nothing; own questions and requests for help that nobody answered
	partOpen     part = 'o' // seq8: nothing; own jobs that are open
	partTaken    part = 'c' // seq8: nothing; own jobs that are claimed
	partHeld     part = 'h' // expires8 seq8: nothing; others' jobs that the agent has claimed
)

// Why says for what reason an entry is in an agent's inbox.
type Why byte

// The reasons. The numbers stand in stored rows.
const (
	WhyReply   Why = 1 // it relates to an entry of the agent
	WhyMention Why = 2 // it mentions the agent
)

// String returns the reason's name in the interface.
func (w Why) String() string {
	if w == WhyReply {
		return "reply"
	}
	return "mention"
}

func decodeWhy(row []byte) (Why, error) {
	if len(row) != 1 || Why(row[0]) != WhyReply && Why(row[0]) != WhyMention {
		return 0, fmt.Errorf("%w: inbox row", ErrCorrupt)
	}
	return Why(row[0]), nil
}

// memberPrefix is what all keys of an agent begin with.
func memberPrefix(agent string) []byte {
	const roomForPart = 1 + 8 + 8
	key := append(make([]byte, 0, 1+2+len(agent)+roomForPart), spaceMember)
	key = binary.BigEndian.AppendUint16(key, uint16(len(agent)))
	return append(key, agent...)
}

func memberKey(agent string, p part) []byte { return append(memberPrefix(agent), byte(p)) }

func memberSeqKey(agent string, p part, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(memberKey(agent, p), seq)
}

func heldKey(agent string, expires int64, seq uint64) []byte {
	key := binary.BigEndian.AppendUint64(memberKey(agent, partHeld), uint64(expires))
	return binary.BigEndian.AppendUint64(key, seq)
}

func poolKey(p part, seq uint64) []byte {
	key := append(make([]byte, 0, 2+8), spacePool, byte(p))
	return binary.BigEndian.AppendUint64(key, seq)
}

func notesKey(topic string) []byte { return append([]byte{spaceNotes}, topic...) }

var keyNewest = []byte{spaceNewest}
