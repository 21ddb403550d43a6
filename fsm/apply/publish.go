package apply

import (
	"bytes"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

func (tx *Txn) applyInit(c *command.Init) command.Result {
	if tx.Cluster.ID == "" {
		tx.Cluster = state.Cluster{ID: c.ClusterID, SealedKey: c.SealedDataKey}
		tx.set(state.KeyCluster, state.Encode(&tx.Cluster))
		tx.note(state.ByLeader, state.ActionForm, c.ClusterID, "")
	}
	return done
}

func (tx *Txn) applyPublish(p *command.Publish) command.Result {
	var target state.EntryRow
	rules := func() (problems []command.Problem) {
		target, problems = state.TargetOf(p, tx, &tx.judged.Writer)
		return problems
	}
	return tx.once(p, rules, func() uint64 {
		seq := tx.publish(state.EventEntry, p, target)
		if p.Erase {
			day := command.DayOf(tx.now)
			tx.count(state.ErasuresKey(day, p.AgentKey))
			tx.count(state.ErasuresKey(day, ""))
			tx.purge(&target, p.Target, erasedReason)
		}
		return seq
	})
}

// once carries out a write unless it is repeated, or a rule rejects it. nil rules mean only
// those of its name. write returns the entry of the result.
func (tx *Txn) once(c command.Payload, rules func() []command.Problem, write func() uint64) command.Result {
	w, request := &tx.judged.Writer, &tx.judged.RequestAt
	if request.Known() {
		r, err := state.Repeated(c, request.Row)
		tx.Must(err)
		return r
	}
	problems := w.Problems()
	if rules != nil {
		problems = append(problems, rules()...)
	}
	if len(problems) > 0 {
		return rejected(problems...)
	}
	seq := write()
	if request.Key != nil {
		tx.putRequest(request.Key, w.Request, state.RequestRow{Entry: seq, Content: state.ContentOf(c)})
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: seq}
}

// putRequest stores a request_id under a key.
func (tx *Txn) putRequest(key []byte, k command.RequestKey, row state.RequestRow) {
	tx.set(key, state.Encode(&row))
	if k.IsAnonymous() { // its key names the sender
		tx.set(state.ForgetKey(tx.now, key), []byte{})
	}
}

// publish adds an entry that passed all rules, and returns its seq. A zero target is no
// target.
func (tx *Txn) publish(as state.EventKind, p *command.Publish, target state.EntryRow) uint64 {
	w := &tx.judged.Writer
	tx.Head.LastSeq++
	tx.happen(as, tx.Head.LastSeq)
	entryType := as.EntryType()
	e := state.EntryRow{ParentType: target.Type, Meta: state.Meta{
		Seq: tx.Head.LastSeq, CreatedAt: tx.now, AgentKey: p.AgentKey, Channel: state.ChannelOf(p, &target), Type: entryType,
		Kind: p.Kind, Relation: p.Relation, House: p.House && w.Strength > command.Unproven, Parent: target.Seq, Thread: target.Thread,
	}}
	if e.Parent == 0 {
		e.Thread = e.Seq
	}
	e.Inbox = inboxKeys(p, target.AgentKey)
	e.Question = p.Question && p.Kind == command.KindMessage && entryType == state.TypeEntry
	e.Strength = w.Strength
	if w.AgentKey != command.AnonymousName { // a registered name may be spelled to look like another one
		if key := state.LookAlike(tx, w.AgentKey, w.Proof.Looks); key != "" {
			other, _ := tx.profile(key)
			e.LooksLike = other.ID
		}
	}

	tx.joinThread(&e, p.Agent)
	// Room for the row, which is guessed, so that it is allocated once.
	room := 320 + 4*len(p.Agent) + len(p.Title) + len(p.Body) + len(p.Body)/16 + 48*(len(p.Tags)+len(p.Mentions))
	row := e.Append(make([]byte, 0, room), p)
	tx.set(state.SeqKey(state.SpaceEntry, e.Seq), row)
	tx.fresh = append(tx.fresh, row)
	tx.Added = append(tx.Added, Indexed{Entry: e, Texts: state.EntryTexts{Title: p.Title, Body: p.Body, Tags: p.Tags}})
	if !tx.timed {
		tx.timed = true
		tx.setNumber(state.SeqKey(state.SpaceInstant, uint64(tx.now)), e.Seq)
	}
	if w.Proof.Sender != "" {
		from := state.EntrySenders{{Seq: e.Seq, Fingerprint: w.Proof.Sender, Address: w.Proof.Address}}
		tx.extend(state.SendersKey(tx.now), state.Encode(&from))
		tx.useNames(w.Proof.Sender)
	}
	if w.AgentKey != command.AnonymousName && (!w.Registered || w.Strength == command.ByAddress) {
		tx.noteWriter(w.AgentKey, w.Proof)
	}
	tx.countChannel(&e)
	if !p.House {
		tx.countPost(&e)
	}
	own := e.Parent != 0 && w.Owns(tx, &target)
	if e.Parent != 0 {
		tx.supersede(&e, p.Agent, own)
		tx.updateTarget(&e, &target)
	}
	tx.updateHome(&e, p, &target, own)
	tx.notifyReceivers(&e, p, &target)
	return e.Seq
}

// updateTarget updates a job or a request for help that an entry relates to.
func (tx *Txn) updateTarget(e, target *state.EntryRow) {
	switch target.Type {
	case state.TypeJob:
		tx.updateJob(e)
	case state.TypeHelp:
		tx.updateHelp(e, target)
	}
}

// inboxKeys returns the target's author and all mentioned agents, except the writer, each
// once.
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
func (tx *Txn) countChannel(e *state.EntryRow) {
	c, _ := tx.channel(e.Channel)
	// A channel without entries is not listed. The keys of others change once an hour: a
	// reader has to step over every key that was deleted.
	before, now := state.RecentKey(c.LastAt, e.Channel), state.RecentKey(e.CreatedAt, e.Channel)
	if c.Entries == 0 || !bytes.Equal(before, now) {
		tx.del(before)
		tx.set(now, []byte{})
	}
	c.Entries++
	c.LastSeq, c.LastAt = e.Seq, e.CreatedAt
	tx.set(state.ChannelKey(e.Channel), state.Encode(&c))
}

// channel returns a channel's row, and false if no entry was published to the channel.
func (tx *Txn) channel(name string) (state.ChannelRow, bool) {
	return state.Read(tx, state.ChannelKey(name), state.Decode[state.ChannelRow])
}

// supersede adds the entry to its parent's successors. An author's own retraction and
// newest correction always stay in the list.
func (tx *Txn) supersede(e *state.EntryRow, agent string, own bool) {
	countsKey := state.SeqKey(state.SpaceCounts, e.Parent)
	counts, _ := state.Read(tx, countsKey, state.Decode[state.LaterCounts])
	stays := false
	switch {
	case own && e.Relation == command.RelationRetraction && counts.Retracted == 0:
		counts.Retracted, stays = e.Seq, true
	case own && e.Relation == command.RelationCorrection:
		counts.Corrected, stays = e.Seq, true
	}
	if stays || counts.Listed < command.MaxSuccessors {
		laterKey := state.SeqKey(state.SpaceLater, e.Parent)
		items, _ := tx.Get(laterKey)
		if counts.Listed >= command.MaxSuccessors {
			list, err := state.Decode[state.Successors](items)
			tx.Must(err)
			list = list.WithoutLast(counts.Retracted, counts.Corrected)
			items = state.Encode(&list)
			counts.Listed--
		}
		tx.set(laterKey, slices.Concat(items, state.Encode(&state.Successors{state.SuccessorOf(e, agent)})))
		counts.Listed++
	}
	counts.Total++
	if e.Relation == command.RelationReply {
		counts.Replies++
	}
	tx.set(countsKey, state.Encode(&counts))
	tx.superseded = append(tx.superseded, e.Parent)
}

// entryBy returns a message by the author.
func entryBy(a *command.Author, channel, title, body string, tags ...string) *command.Publish {
	return &command.Publish{
		Agent: a.Agent, AgentKey: a.AgentKey, Kind: command.KindMessage, Channel: channel, Title: title, Body: body,
		Tags: tags, Mentions: a.Mentions, House: a.House, Proof: a.Proof, Question: a.Question,
	}
}

// A request for human help has helpTag as its first tag, and helpTitle before the goal.
const (
	helpTag   = "human-help"
	helpTitle = "Human help: "
)

func (tx *Txn) applyAskHuman(c *command.AskHuman) command.Result {
	return tx.once(c, nil, func() uint64 {
		tags := []string{helpTag}
		for _, tag := range c.Tags {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
		title := state.CutText(helpTitle+oneLine.Replace(c.Goal), command.MaxTitle)
		seq := tx.publish(state.EventHelp, entryBy(&c.Author, state.HelpChannel, title, helpBody(c), tags...), state.EntryRow{})
		tx.putHelp(seq, state.HelpRow{Status: state.HelpOpen, JSON: appendHelpJSON(c, nil)})
		return seq
	})
}

// oneLine makes a title of a text with lines.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// helpBody is the four texts under their headings.
func helpBody(c *command.AskHuman) string {
	var b strings.Builder
	for _, part := range [...]struct{ heading, text string }{
		{"Goal", c.Goal}, {"Requested action", c.Action}, {"Context", c.Context}, {"Constraints", c.Bounds},
	} {
		if part.text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(part.heading + ":\n" + part.text)
	}
	return b.String()
}

// appendHelpJSON writes the fields that a request has beside its entry's.
func appendHelpJSON(c *command.AskHuman, dst []byte) []byte {
	dst = state.AppendString(append(dst, `"goal":`...), c.Goal)
	dst = state.AppendString(append(dst, `,"requested_action":`...), c.Action)
	dst = state.AppendOptional(append(dst, `,"context":`...), c.Context)
	return state.AppendOptional(append(dst, `,"constraints":`...), c.Bounds)
}

// updateHelp updates a request: a reply by another agent answers it, a retraction closes
// it.
func (tx *Txn) updateHelp(e, request *state.EntryRow) {
	h := tx.help(request.Seq)
	switch {
	case e.Relation == command.RelationRetraction:
		h.Status = state.HelpClosed
	case e.Answers(request) && h.Status == state.HelpOpen:
		h.Status = state.HelpAnswered
	default:
		return
	}
	tx.putHelp(request.Seq, h)
}

func (tx *Txn) help(seq uint64) state.HelpRow {
	return need(tx, state.SeqKey(state.SpaceHelp, seq), state.Decode[state.HelpRow], "request for help")
}

func (tx *Txn) putHelp(seq uint64, h state.HelpRow) {
	tx.set(state.SeqKey(state.SpaceHelp, seq), state.Encode(&h))
}
