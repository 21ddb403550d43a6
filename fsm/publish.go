package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// defaultChannels are the rooms of entries without a channel and a target.
var defaultChannels = [...]string{
	command.KindMessage:        "general",
	command.KindKnowledge:      "knowledge",
	command.KindFeatureRequest: "wants",
}

func (tx *txn) applyInit(c *command.Init) command.Result {
	if tx.cluster.id == "" {
		tx.cluster = cluster{id: c.ClusterID, sealedKey: c.SealedDataKey}
		tx.set(keyCluster, tx.cluster.append(nil))
	}
	return command.Result{Outcome: command.OutcomeDone}
}

func (tx *txn) applyPublish(p *command.Publish) command.Result {
	return tx.once(command.OpPublish, p.Request, func() contentSum { return publishContent(p) }, func() (uint64, []command.Problem) {
		target, problems := tx.targetOf(p)
		if len(problems) > 0 {
			return 0, problems
		}
		return tx.publish(TypeEntry, p, target), nil
	})
}

// once carries a write out unless its request_id was used before. write returns
// the entry that is the write's result, or every rule against it; content is a
// hash of what the client said.
func (tx *txn) once(op command.Op, request command.RequestKey, content func() contentSum, write func() (uint64, []command.Problem)) command.Result {
	known := request != command.RequestKey{}
	var key []byte
	var sum contentSum
	if known {
		key, sum = requestKey(op, request), content()
		if first, ok := read(tx, key, decodeRequestRow); ok {
			return command.Result{Outcome: command.OutcomeDuplicate, Entry: first.entry, Differs: first.content != sum}
		}
	}
	seq, problems := write()
	if len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	if known {
		tx.keep(key, requestRow{entry: seq, content: sum}.append(nil))
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: seq}
}

// targetOf looks the target up and reports every rule against relating to it. The
// zero row means that there is no target.
func (tx *txn) targetOf(p *command.Publish) (entryRow, []command.Problem) {
	if p.Relation == command.RelationNone {
		return entryRow{}, nil
	}
	target, ok := tx.resolve(p.Target)
	if !ok {
		return entryRow{}, []command.Problem{command.ProblemUnknownTarget}
	}
	if p.Relation != command.RelationRetraction {
		return target, nil
	}
	var problems []command.Problem
	if target.AgentKey != p.AgentKey {
		problems = append(problems, command.ProblemRetractionOther)
	}
	if target.Type == TypeJob && tx.job(target.Seq).at(tx.now).status == JobClaimed {
		problems = append(problems, command.ProblemJobClaimed)
	}
	return target, problems
}

// resolve returns the entry with a public id, of whatever type.
func (tx *txn) resolve(id string) (entryRow, bool) {
	entryType, seq, ok := ParseID(id)
	if !ok {
		return entryRow{}, false
	}
	e, ok := tx.entry(seq)
	return e, ok && e.Type == entryType
}

// publish adds an entry that passed all rules, and returns its seq. The zero
// target means that there is none.
func (tx *txn) publish(entryType EntryType, p *command.Publish, target entryRow) uint64 {
	tx.head.lastSeq++
	e := entryRow{parentType: target.Type, Meta: Meta{
		Seq: tx.head.lastSeq, CreatedAt: tx.now, AgentKey: p.AgentKey, Channel: p.Channel, Type: entryType,
		Kind: p.Kind, Relation: p.Relation, House: p.House, Parent: target.Seq, Thread: target.Thread,
	}}
	if e.Parent == 0 {
		e.Thread = e.Seq
	}
	if e.Channel == "" {
		e.Channel = target.Channel
	}
	if e.Channel == "" {
		e.Channel = defaultChannels[p.Kind]
	}
	e.inbox = inboxKeys(p, target.AgentKey)
	e.question = p.Question && p.Kind == command.KindMessage && entryType == TypeEntry
	e.verified = tx.verify(p.AgentKey, &p.Proof)

	row := e.append(make([]byte, 0, rowSize(p)), p)
	key := seqKey(spaceEntry, e.Seq)
	tx.set(key, row)
	tx.fresh = append(tx.fresh, row)
	tx.added = append(tx.added, indexed{entry: e, texts: entryTexts{p.Title, p.Body, p.Tags}})
	if !tx.timed {
		tx.timed = true
		tx.set(seqKey(spaceInstant, uint64(tx.now)), binary.AppendUvarint(nil, e.Seq))
	}
	tx.countChannel(&e)
	tx.countPost(&e)
	if e.Parent != 0 {
		tx.supersede(&e, p.Agent)
		tx.updateTarget(&e, &target)
	}
	tx.updateHome(&e, p, &target)
	tx.notifyReceivers(&e, p, &target)
	return e.Seq
}

// updateTarget updates a job or a request for help that an entry relates to.
func (tx *txn) updateTarget(e, target *entryRow) {
	switch target.Type {
	case TypeJob:
		tx.updateJob(e)
	case TypeHelp:
		tx.updateHelp(e, target)
	}
}

// inboxKeys returns in whose inboxes the entry is: the target's author and all who
// are mentioned, except the writer. Each once, in a fixed order.
func inboxKeys(p *command.Publish, author string) []string {
	var keys []string
	if author != "" && author != p.AgentKey {
		keys = append(keys, author)
	}
	for _, name := range p.Mentions {
		if name != p.AgentKey && !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	return keys
}

// countChannel counts an entry into its channel.
func (tx *txn) countChannel(e *entryRow) {
	key := channelKey(e.Channel)
	c, known := read(tx, key, func(row []byte) (channelRow, error) {
		c, _, err := decodeChannelRow(row)
		return c, err
	})
	if known {
		tx.keep(seqKey(spaceRecent, c.lastSeq), nil)
	}
	c.entries++
	c.lastSeq, c.lastAt = e.Seq, e.CreatedAt
	row := c.append(nil)
	tx.keep(key, row)
	tx.keep(seqKey(spaceRecent, c.lastSeq), append(slices.Clip(row), e.Channel...))
}

// supersede notes the entry at the one that it relates to.
func (tx *txn) supersede(e *entryRow, agent string) {
	countsKey := seqKey(spaceCounts, e.Parent)
	counts, _ := read(tx, countsKey, decodeLaterCounts)
	if counts.total < command.MaxSuccessors {
		laterKey := seqKey(spaceLater, e.Parent)
		items, _ := tx.get(laterKey)
		tx.keep(laterKey, appendSuccessor(slices.Clip(items), e.Seq, agent, e.Relation, e.CreatedAt))
	}
	counts.total++
	if e.Relation == command.RelationReply {
		counts.replies++
	}
	tx.keep(countsKey, counts.append(nil))
	tx.superseded = append(tx.superseded, e.Parent)
}

// rowSize guesses the length of an entry's row, so that it is allocated once.
func rowSize(p *command.Publish) int {
	const fixed, perTag = 320, 48
	return fixed + 4*len(p.Agent) + len(p.Title) + len(p.Body) + len(p.Body)/16 + perTag*(len(p.Tags)+len(p.Mentions))
}

// contentHashBytes is the length of the hash by which a request_id's second body
// is compared with its first.
const contentHashBytes = 16

// contentSum is that hash.
type contentSum [contentHashBytes]byte

// publishContent is a hash of what the client said. The fields' order stands in
// stored rows.
func publishContent(p *command.Publish) contentSum {
	return hashContent([]string{
		p.Agent, p.Kind.String(), p.Channel, p.Title, p.Body, p.Target, p.Relation.String(),
	}, p.Tags)
}

// hashContent is a hash of texts, each preceded by its length.
func hashContent(fields ...[]string) (sum contentSum) {
	h := sha256.New()
	var buf []byte
	for _, texts := range fields {
		for _, s := range texts {
			buf = appendBlob(buf[:0], s)
			h.Write(buf)
		}
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// entryBy returns a message by the author.
func entryBy(a *command.Author, channel, title, body string, tags ...string) *command.Publish {
	return &command.Publish{
		Agent: a.Agent, AgentKey: a.AgentKey, Kind: command.KindMessage, Channel: channel, Title: title, Body: body,
		Tags: tags, Mentions: a.Mentions, House: a.House, Proof: a.Proof, Question: a.Question,
	}
}

// cutText returns the first n code points of s, without blanks at the end.
func cutText(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.TrimRight(s[:i], " \t\n")
		}
		n--
	}
	return s
}
