package fsm

import "slices"

// memory is what the apply goroutine remembers of rows that it changes again and
// again.
type memory struct {
	activities memo[activity]
	spreads    memo[spread]
	outboxes   memo[outbox]
	hooks      hookSet
}

func newMemory() *memory {
	return &memory{
		activities: newMemo[activity](activitiesKept), spreads: newMemo[spread](notesKept),
		outboxes: newMemo[outbox](outboxesKept),
	}
}

// tellHome keeps what home shows up to date with an entry that was filed. The
// zero target stands for none.
func (tx *txn) tellHome(e *entryRow, p *Publish, target *entryRow) {
	tx.spread(keyNewest).add(authored{e.Seq, e.AgentKey}, newestShown)
	a := tx.activity(e.AgentKey)
	for _, name := range topicsOf(e.Channel, p.Tags) {
		a.count(name, e.CreatedAt)
		if e.Kind == KindKnowledge {
			tx.spread(notesKey(name)).add(authored{e.Seq, e.AgentKey}, notesShown)
		}
	}
	for _, name := range e.inbox {
		why := []byte{byte(WhyMention)}
		if name == target.AgentKey {
			why[0] = byte(WhyReply)
		}
		tx.set(memberSeqKey(name, partInbox, e.Seq), why)
		tx.set(memberSeqKey(name, partOwed, e.Seq), why)
	}
	if e.waits() {
		tx.addOwn(partAsked, e.AgentKey, e.Seq)
	}
	if e.Parent != 0 {
		tx.settle(e, target)
	}
}

// waits reports whether the entry waits for an answer until it gets one.
func (e *entryRow) waits() bool { return e.question || e.Style == StyleHelp }

// settle notes what an entry means for the one that it relates to: its writer has
// answered it; a question has its answer; what is retracted needs none.
func (tx *txn) settle(e, target *entryRow) {
	retraction := e.Relation == RelationRetraction
	for _, name := range target.inbox {
		if retraction || name == e.AgentKey {
			tx.del(memberSeqKey(name, partOwed, target.Seq))
		}
	}
	answer := e.Relation == RelationReply && e.AgentKey != target.AgentKey
	if target.waits() && (answer || retraction) {
		tx.dropOwn(partAsked, target.AgentKey, target.Seq)
	}
	if answer {
		tx.activity(e.AgentKey).exchange(partner{agent: target.AgentKey, entry: e.Seq})
		tx.activity(target.AgentKey).exchange(partner{agent: e.AgentKey, entry: e.Seq, theirs: true})
	}
}

// tellHomeOfJob keeps the lists of a job's poster and of its claimants up to date
// with a change of its state.
func (tx *txn) tellHomeOfJob(seq uint64, old, next jobRow) {
	if old.status == JobClaimed {
		tx.keep(heldKey(old.claimantKey, old.expires, seq), nil)
	}
	if next.status == JobClaimed {
		tx.keep(heldKey(next.claimantKey, next.expires, seq), []byte{})
	}
	if old.status == next.status {
		return
	}
	job, _ := tx.entry(seq)
	if p, listed := ownPart(old.status); listed {
		tx.dropOwn(p, job.AgentKey, seq)
	}
	if p, listed := ownPart(next.status); listed {
		tx.addOwn(p, job.AgentKey, seq)
	}
}

// ownPart returns the poster's list of jobs of a status.
func ownPart(status JobStatus) (p part, listed bool) {
	switch status {
	case JobOpen:
		return partOpen, true
	case JobClaimed:
		return partTaken, true
	}
	return 0, false
}

// topicsOf returns the topics of an entry: its channel and its tags, each once.
func topicsOf(channel string, tags []string) []string {
	topics := append(make([]string, 0, 1+len(tags)), lowerASCII(channel))
	for _, tag := range tags {
		if tag = lowerASCII(tag); !slices.Contains(topics, tag) {
			topics = append(topics, tag)
		}
	}
	return topics
}

// lowerASCII returns s with the letters of ASCII in lower case.
func lowerASCII(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if b[j] >= 'A' && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// finishHome writes the rows that were changed in memory.
func (tx *txn) finishHome() {
	var buf []byte
	for agent, a := range tx.activities {
		a.write(tx, agent)
	}
	for key, s := range tx.spreads {
		buf = s.append(buf[:0])
		tx.set([]byte(key), buf)
	}
}
