package fsm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// logWriter draws a log of all commands. Its machine applies each log entry as soon as
// it is drawn. The next commands depend on that state, so that most are accepted.
type logWriter struct {
	*rapid.T
	log     *raftLog
	m       *Machine
	applied func()     // called after each log entry
	v       *view.View // of the state before the log entry that is being drawn
	seqs    map[command.BootID]uint64
	sent    map[command.BootID][]command.Command
	ops     []command.Op // drawn from: weighted, if not set otherwise
	folds   uint64
	// Most commands are by agent and about entry, for the given number of commands.
	agent string
	entry uint64
	left  int
	saved int64      // when the newest backup of the schedule was begun
	last  command.Op // that was drawn
}

// newLogWriter returns a writer of a log that usually begins like that of a cluster: with
// its id, a sender memory, and agents.
func newLogWriter(t *rapid.T, l *raftLog, m *Machine, applied func()) *logWriter {
	w := &logWriter{T: t, log: l, m: m, applied: applied, ops: weighted, seqs: map[command.BootID]uint64{}, sent: map[command.BootID][]command.Command{}}
	w.feed()
	if w.oneOf(4) {
		return w
	}
	days := one(w, uint64(1), 2, 30)
	first := []command.Payload{
		&command.Init{ClusterID: "c", SealedDataKey: []byte("key")}, &command.SetSettings{SenderDays: &days},
	}
	for _, name := range someAgents[:3] {
		first = append(first, fsmtest.RegisterWithReceiver(name, func(c *command.Register) {
			c.NewKey, c.Proof = fsmtest.KeyHash(name), fsmtest.ByAddress("from-home")
		}))
	}
	l.commands(first...)
	w.seqs[fsmtest.Boot1] = l.nextSeq[fsmtest.Boot1]
	w.feed()
	return w
}

// feed applies the newest log entry.
func (w *logWriter) feed() {
	w.log.feed(w.m, w.log.last(), w.log.last())
	w.applied()
}

// draws is the table of all commands: how often each is drawn, and how.
var draws = map[command.Op]struct {
	weight int
	draw   func(*logWriter) command.Payload
}{
	command.OpLead:     {1, func(w *logWriter) command.Payload { return &command.Lead{ServerID: w.server()} }},
	command.OpInit:     {1, func(*logWriter) command.Payload { return &command.Init{ClusterID: "c", SealedDataKey: []byte("key")} }},
	command.OpPublish:  {30, (*logWriter).publish},
	command.OpRegister: {5, (*logWriter).register},
	command.OpPostJob:  {4, (*logWriter).postJob},
	command.OpClaimJob: {6, (*logWriter).claimJob},
	command.OpFinishJob: {3, func(w *logWriter) command.Payload {
		return &command.FinishJob{JobAction: w.onJob(state.JobClaimed), Result: "The result."}
	}},
	command.OpReleaseJob: {3, func(w *logWriter) command.Payload { return &command.ReleaseJob{JobAction: w.onJob(state.JobClaimed)} }},
	command.OpCloseJob:   {3, func(w *logWriter) command.Payload { return &command.CloseJob{JobAction: w.onJob(state.JobOpen)} }},
	command.OpTakeJob: {4, func(w *logWriter) command.Payload {
		a, b := w.onJob(state.JobOpen), w.onJob(state.JobOpen)
		return &command.TakeJob{Author: a.Author, TTL: command.HourMillis, Jobs: []string{a.Job, b.Job}, Next: "{}"}
	}},
	command.OpTick:            {1, func(*logWriter) command.Payload { return &command.Tick{} }},
	command.OpAskHuman:        {2, (*logWriter).askHuman},
	command.OpAddUsage:        {3, (*logWriter).addUsage},
	command.OpAckDelivery:     {6, (*logWriter).ackDelivery},
	command.OpTestDelivery:    {2, func(w *logWriter) command.Payload { return &command.TestDelivery{AgentKey: w.named()} }},
	command.OpBeginDeliveries: {6, (*logWriter).beginDeliveries},
	command.OpSetFormat:       {1, (*logWriter).setFormat},
	command.OpResetKey: {1, func(w *logWriter) command.Payload {
		return &command.ResetKey{AgentKey: w.named(), NewKey: fsmtest.KeyHash(w.named()), NewRecovery: w.recoveryKey()}
	}},
	command.OpReseal: {1, (*logWriter).reseal},
	command.OpRecordBackup: {1, func(w *logWriter) command.Payload {
		if w.saved > 0 && w.oneOf(3) {
			return &command.RecordBackup{Verified: w.saved, Problem: [...]string{"", "damaged"}[w.below(2)]}
		}
		c := &command.RecordBackup{At: w.log.stamp - int64(w.below(5000))}
		if w.oneOf(2) {
			c.Run, c.Oldest, w.saved = w.log.stamp-int64(w.below(5000)), c.At, c.At
		}
		if c.Run > 0 && w.oneOf(3) {
			c.At, c.Oldest, c.Problem = 0, 0, "the bucket is full"
		}
		return c
	}},
	command.OpProtectName: {1, func(w *logWriter) command.Payload {
		return &command.ProtectName{AgentKey: w.named(), Protected: w.oneOf(2)}
	}},
	command.OpSetSettings: {3, (*logWriter).setSettings},
	command.OpMarkSeen: {3, func(w *logWriter) command.Payload {
		return &command.MarkSeen{AgentKey: w.named(), Entries: []uint64{w.seq(), w.seq()}}
	}},
	command.OpSetModerator: {2, (*logWriter).setModerator},
	command.OpHide:         {5, (*logWriter).hide},
	command.OpPurge:        {2, (*logWriter).purge},
	command.OpSetRule:      {3, (*logWriter).setRule},
	command.OpLiftRule:     {3, (*logWriter).liftRule},
	command.OpNoteChange: {1, func(w *logWriter) command.Payload {
		return &command.NoteChange{Action: one(w, command.ChangeAdd, command.ChangeRemove), Server: w.server(), By: w.server()}
	}},
	command.OpSweep:          {3, (*logWriter).sweep},
	command.OpReport:         {3, (*logWriter).report},
	command.OpResolveReports: {2, (*logWriter).resolveReports},
	command.OpForgetSenders:  {3, (*logWriter).forgetSenders},
	command.OpRecover: {4, func(w *logWriter) command.Payload {
		return &command.Recover{
			AgentKey: w.named(), Key: w.recoveryKey(), NewKey: fsmtest.KeyHash(w.named()), NewRecovery: w.recoveryKey(),
			RequestID: one(w, "", "request-1", "request-2"),
		}
	}},
}

// followers are commands that read the rows that a command has changed or deleted.
var followers = map[command.Op][]command.Op{
	command.OpForgetSenders: {command.OpPublish, command.OpSetRule, command.OpForgetSenders},
	command.OpHide:          {command.OpHide, command.OpPublish, command.OpPurge},
	command.OpPurge:         {command.OpHide, command.OpPublish, command.OpReport},
	command.OpClaimJob:      {command.OpFinishJob, command.OpReleaseJob, command.OpCloseJob},
	command.OpAddUsage:      {command.OpAddUsage},
	command.OpRecover:       {command.OpRecover},
}

// TestAllCommandsAreDrawn fails for a command of the table that logWriter does not draw.
func TestAllCommandsAreDrawn(t *testing.T) {
	for _, op := range command.Ops() {
		if draws[op].weight == 0 {
			t.Errorf("logWriter never draws the command %s: add it to draws", op)
		}
	}
}

// weighted are the commands, each as often as its weight. The first ones are different,
// because rapid prefers them.
var weighted = func() (ops []command.Op) {
	all := command.Ops()
	slices.SortStableFunc(all, func(a, b command.Op) int { return draws[b].weight - draws[a].weight })
	for n := range draws[all[0]].weight {
		for _, op := range all {
			if draws[op].weight > n {
				ops = append(ops, op)
			}
		}
	}
	return ops
}()

// write draws a log entry and applies it.
func (w *logWriter) write() {
	switch w.below(20) {
	case 0:
		w.log.add(raft.LogNoop, nil)
	case 1:
		w.log.add(raft.LogConfiguration, w.log.entries[0].Data)
	default:
		w.log.batch(w.batch())
	}
	w.feed()
}

// batch draws a log entry of commands: of one or two boots, with retries. The clock
// usually advances a little, and sometimes by months or back.
func (w *logWriter) batch() command.Batch {
	w.v = w.m.View()
	defer w.v.Release()
	const second, hour, day = 1000, command.HourMillis, command.DayMillis
	w.log.stamp += int64(w.below(one(w, 3*second, 3*second, 3*second, 3*second, hour, 2*hour, 30*hour, 8*day, 100*day)))
	if w.oneOf(20) {
		w.log.stamp -= 5 * second
	}
	var b command.Batch
	for range 1 + w.below(2) {
		boot := one(w, someBoots...)
		n := w.seqs[boot]
		g := command.Group{Boot: boot, Floor: n - min(n, uint64(w.below(5)))}
		if old := w.sent[boot]; len(old) > 0 && w.oneOf(3) {
			again := old[len(old)-1-w.below(min(len(old), 8))]
			if again.Seq < g.Floor && w.oneOf(2) {
				g.Open = []uint64{again.Seq}
			}
			g.Commands = append(g.Commands, again)
		}
		for range 1 + w.below(3) {
			w.seqs[boot]++
			c := command.Command{Seq: w.seqs[boot], Payload: w.command()}
			w.sent[boot] = append(w.sent[boot], c)
			g.Commands = append(g.Commands, c)
		}
		b.Groups = append(b.Groups, g)
	}
	b.Stamp = w.log.stamp
	return b
}

// command draws a command that may enter the log.
func (w *logWriter) command() command.Payload {
	if w.left--; w.left < 0 {
		w.left, w.entry = 3+w.below(10), 0
		w.agent, w.entry = one(w, someAgents...), w.seq()
	}
	ops := w.ops
	if next := followers[w.last]; next != nil && w.oneOf(2) {
		ops = next
	}
	w.last = one(w, ops...)
	p := draws[w.last].draw(w)
	if by, signed := command.SignatureOf(p); signed {
		w.prove(p, by)
	}
	must.Get(command.Encode(p))(w)
	return p
}

// prove fills the proof of a command in, usually as a node does that gets the request.
func (w *logWriter) prove(p command.Payload, by command.Signature) {
	*by.Proof = fsmtest.ByAddress(one(w, "from-home", "from-work"))
	by.Proof.Address = !w.oneOf(4)
	if by.AgentKey != command.AnonymousName && !w.oneOf(3) {
		by.Proof.Key = fsmtest.KeyHash(one(w, by.AgentKey, by.AgentKey, by.AgentKey, by.AgentKey, "another"))
	}
	look := sha256.Sum256([]byte(one(w, by.AgentKey, by.AgentKey, by.AgentKey, "alike")))
	by.Proof.Looks = look[:command.LookBytes]
	by.Proof.Unlimited, by.Proof.Shared = w.oneOf(3), w.oneOf(10)
	from := netip.MustParseAddr(one(w, "192.0.2.1", "198.51.100.1"))
	policy := must.Get(w.v.Admit(p, from, 0))(w).Policy
	by.Proof.Policy = policy.Revision
	if w.oneOf(40) {
		by.Proof.Policy++ // of a node that is behind
	}
}

// below draws a number from 0 to n-1; small ones are more likely.
func (w *logWriter) below(n int) int { return rapid.IntRange(0, n-1).Draw(w.T, "number") }

// oneOf draws a condition that holds once in n times.
func (w *logWriter) oneOf(n int) bool { return w.below(n) == n-1 }

// one draws one of the values.
func one[V any](w *logWriter, of ...V) V { return rapid.SampledFrom(of).Draw(w.T, "one") }

func (w *logWriter) server() string { return one(w, "n1", "n2", "n3") }

// author draws the name of an author.
func (w *logWriter) author() string {
	if w.oneOf(2) {
		return w.agent
	}
	return one(w, someAgents...)
}

// named draws a name that can be registered.
func (w *logWriter) named() string {
	if name := w.author(); name != command.AnonymousName {
		return name
	}
	return one(w, someAgents[:3]...)
}

// seq draws the seq of an entry, usually of one that exists.
func (w *logWriter) seq() uint64 {
	last := w.v.LastSeq()
	switch {
	case w.entry != 0 && !w.oneOf(3):
		return w.entry
	case w.oneOf(2):
		return max(last, 6) - uint64(w.below(6)) // of the newest
	}
	return 1 + uint64(w.below(int(last)+1)) //nolint:gosec // small
}

// id draws the public id of an entry of any type.
func (w *logWriter) id() string { return w.idOf(w.seq()) }

func (w *logWriter) idOf(seq uint64) string {
	meta, known := w.meta(seq)
	if !known {
		return state.EntryID(seq)
	}
	return state.FormatID(meta.Type, seq)
}

func (w *logWriter) meta(seq uint64) (state.Meta, bool) {
	meta, known, err := w.v.Meta(seq)
	must.Do(w, err)
	return meta, known
}

func (w *logWriter) mentions() (names []string) {
	for _, name := range someAgents[:3] {
		if w.oneOf(4) {
			names = append(names, name)
		}
	}
	return names
}

func (w *logWriter) tags() (tags []string) {
	for range w.below(4) {
		tags = append(tags, fmt.Sprint("tag", w.below(40)))
	}
	return tags
}

// request draws a request_id for an author, or the zero value.
func (w *logWriter) request(agent string) command.RequestKey {
	if !w.oneOf(4) {
		return command.RequestKey{}
	}
	if agent == command.AnonymousName {
		agent = command.AnonymousScope
	}
	return command.RequestKey{Scope: agent, ID: fmt.Sprint("request-", w.below(6))}
}

func (w *logWriter) by() command.Author {
	a := w.author()
	return command.Author{Agent: a, AgentKey: a, Mentions: w.mentions(), Request: w.request(a), Question: w.oneOf(3)}
}

func (w *logWriter) order() command.Order {
	return command.Order{By: one(w, command.Operator, command.Operator, "moderator"), Reason: "A reason."}
}

func (w *logWriter) publish() command.Payload {
	by, relation, target := w.by(), command.RelationNone, ""
	if w.oneOf(2) {
		seq := w.seq()
		relation, target = command.Relation(1+w.below(4)), w.idOf(seq) //nolint:gosec // small
		if meta, known := w.meta(seq); known && w.oneOf(2) {
			by.Agent, by.AgentKey = meta.AgentKey, meta.AgentKey // only authors retract
		}
	}
	p := &command.Publish{
		Agent: by.Agent, AgentKey: by.AgentKey, Relation: relation, Target: target, Mentions: by.Mentions, Request: by.Request, Question: by.Question,
		Kind: one(w, command.KindMessage, command.KindKnowledge, command.KindFeatureRequest), House: w.oneOf(20),
		Title: fmt.Sprint("A title ", w.below(9)), Body: "Body " + strings.Repeat(one(w, someWords...)+" ", 1+w.below(4)), Tags: w.tags(),
	}
	if w.oneOf(2) {
		p.Channel = fmt.Sprint("channel-", w.below(8))
	}
	p.Erase = relation == command.RelationRetraction && !w.oneOf(3)
	return p
}

func (w *logWriter) register() command.Payload {
	name := w.named()
	if w.oneOf(3) {
		name = fmt.Sprint("one-of-many-", w.below(2*command.MaxAddressNames)) // enough for an address that is no proof
	}
	c := &command.Register{
		Agent: name, AgentKey: name, NewKey: fsmtest.KeyHash(one(w, name, name, name, "another")), NewRecovery: w.recoveryKey(), House: w.oneOf(20), Request: w.request(name), RotateKey: w.oneOf(8),
		Given: command.FieldDescription | command.FieldNote, Description: fmt.Sprint("Description ", w.below(5)), Note: one(w, "", "A note."),
	}
	if w.oneOf(3) {
		c.Given |= command.FieldCapabilities | command.FieldEndpoint
		c.Capabilities, c.Endpoint = w.tags(), "https://endpoint.example.com/"
	}
	if !w.oneOf(3) {
		c.Given |= command.FieldNotifyURL
		if !w.oneOf(4) {
			c.NotifyURL, c.NotifySalt, c.NotifyVerified = fmt.Sprint("https://hook.example.com/", w.below(3)), fsmtest.Salt(one(w, "a", "b")), !w.oneOf(4)
		}
	}
	if w.oneOf(6) {
		c.Given |= command.FieldProtected
		c.Protected = w.oneOf(2)
	}
	if w.oneOf(20) {
		return &command.Register{Agent: name, AgentKey: name, NewKey: c.NewKey, NewRecovery: c.NewKey, Request: c.Request, Delete: true}
	}
	return c
}

// recoveryKey draws one of the few recovery keys that names have.
func (w *logWriter) recoveryKey() []byte { return fsmtest.KeyHash(one(w, "recovery-1", "recovery-2")) }

func (w *logWriter) postJob() command.Payload {
	return &command.PostJob{Author: w.by(), Title: "A job", Body: "The text of a job.", Tags: w.tags()}
}

// onJob draws a job, often in a status, and who acts on it: often its claimant, or its poster.
func (w *logWriter) onJob(status state.JobStatus) command.JobAction {
	a := command.JobAction{Author: w.by(), Job: w.id()}
	jobs, _, err := w.v.ListJobs(view.Query{JobStatus: one(w, status, status, 0), Limit: 4})
	must.Do(w, err)
	if len(jobs) == 0 || w.oneOf(10) {
		return a
	}
	seq := one(w, jobs...)
	a.Job = state.FormatID(state.TypeJob, seq)
	if job, _, err := w.v.Job(seq); err != nil {
		w.Fatal(err)
	} else if job.ClaimantKey != "" && !w.oneOf(4) {
		a.Agent, a.AgentKey = job.ClaimantKey, job.ClaimantKey
	}
	if meta, _ := w.meta(seq); w.oneOf(5) {
		a.Agent, a.AgentKey = meta.AgentKey, meta.AgentKey
	}
	return a
}

func (w *logWriter) claimJob() command.Payload {
	return &command.ClaimJob{JobAction: w.onJob(one(w, state.JobOpen, state.JobOpen, state.JobClaimed)), Note: one(w, "", "A note."), TTL: one[int64](w, 1, 5000, command.HourMillis, command.MaxClaim)}
}

func (w *logWriter) askHuman() command.Payload {
	return &command.AskHuman{Author: w.by(), Goal: "The goal of a request.", Action: "The action asked for.", Context: one(w, "", "Context."), Tags: w.tags()}
}

func (w *logWriter) addUsage() command.Payload {
	w.folds++
	c := &command.AddUsage{Boot: one(w, someBoots...), Number: w.folds - min(w.folds-1, uint64(w.below(2)))}
	day := func() command.Day { return command.DayOf(w.log.stamp).Minus(one(w, 0, 1, w.below(100))) }
	surface := func() command.Surface { return one(w, command.SurfaceAPI, command.SurfaceWeb) }
	for range w.below(4) {
		c.Rows = append(c.Rows, command.UsageRow{Day: day(), Surface: surface(), Action: one(w, "a", "b"), Client: one(w, "c", "d"), Count: 1 + uint64(w.below(3))})
	}
	for range w.below(3) {
		register := command.AppendRegister(nil, w.below(command.SketchRegisters), byte(1+w.below(command.MaxRank)))
		c.Senders = append(c.Senders, command.SenderRow{Day: day(), Surface: surface(), Registers: register})
	}
	return c
}

// beginDeliveries draws the attempts that are due, as the leader does.
func (w *logWriter) beginDeliveries() command.Payload {
	c := &command.BeginDeliveries{Holder: one(w, someBoots...)}
	err := w.v.DueDeliveries(w.log.stamp, func(string) bool { return false }, func(d outbox.Delivery) bool {
		c.Attempts = append(c.Attempts, d.NextAttempt())
		return true
	})
	must.Do(w, err)
	if len(c.Attempts) == 0 || w.oneOf(10) {
		c.Attempts = append(c.Attempts, w.attempt())
	}
	return c
}

// attempt draws the newest attempt of a delivery to an agent, or the next one. The
// delivery is usually the one that is being sent.
func (w *logWriter) attempt() command.Attempt {
	a := command.Attempt{AgentKey: w.named(), Delivery: 1, Number: 1}
	box, err := w.v.Outbox(a.AgentKey)
	if err != nil || len(box.Newest) == 0 { // the name has no profile, or no delivery
		return a
	}
	d := one(w, box.Newest...)
	if box.First != nil && !w.oneOf(5) {
		d = *box.First
	}
	a.Delivery, a.Number = d.Number, max(1, d.Attempts+uint64(w.below(5)/4)) //nolint:gosec // small
	return a
}

func (w *logWriter) ackDelivery() command.Payload {
	c := &command.AckDelivery{Attempt: w.attempt(), Outcome: command.AttemptDelivered}
	if w.oneOf(2) {
		c.Outcome = one(w, command.AttemptFailed, command.AttemptFailed, command.AttemptFailed, command.AttemptGone)
		c.Reason, c.Jitter, c.RetryAfter = "timeout", int64(w.below(command.MaxRetryJitter)), int64(w.below(one(w, 1, 100_000)))
	}
	return c
}

// setFormat draws a format that the machine knows.
func (w *logWriter) setFormat() command.Payload {
	return &command.SetFormat{Format: command.InitialFormat + w.below(w.m.opts.MaxFormat-command.InitialFormat+1)}
}

func (w *logWriter) reseal() command.Payload {
	former := w.v.SealedDataKey()
	if len(former) == 0 || w.oneOf(4) {
		former = []byte("another")
	}
	return &command.Reseal{Former: bytes.Clone(former), SealedDataKey: fmt.Append(nil, "key ", w.below(5))}
}

func (w *logWriter) setSettings() command.Payload {
	number := func(of ...uint64) *uint64 { n := one(w, of...); return &n }
	switch w.below(10) {
	case 8:
		welcome := one(w, "", "e1", "j2")
		return &command.SetSettings{Welcome: &welcome}
	case 7:
		url := one(w, "", "s3://backups/commons", "file:///backups")
		verify := w.oneOf(2)
		return &command.SetSettings{BackupURL: &url, BackupMillis: number(60_000, 86_400_000), BackupKeep: number(1, 14), BackupVerify: &verify}
	case 0:
		return fsmtest.Retain(one[uint64](w, 0, 1, 2, 30))
	case 2:
		return &command.SetSettings{SenderDays: number(1, 1, 2, 30)}
	case 3:
		proven := w.oneOf(5)
		return &command.SetSettings{ProvenOnly: &proven}
	case 4:
		rate := int64(w.below(10))
		return &command.SetSettings{WriteRate: &rate}
	case 5:
		return &command.SetSettings{SenderBytes: number(0, 0, 100_000, 2000)}
	}
	return &command.SetSettings{DailyBytes: number(0, 0, 10_000_000, 20_000)}
}

func (w *logWriter) setModerator() command.Payload {
	c := &command.SetModerator{Order: fsmtest.ByOperator, Name: one(w, "moderator", "moderator", "other")}
	if !w.oneOf(4) {
		c.Token = fsmtest.KeyHash("token")
		c.For = one[int64](w, 5000, 30*command.DayMillis, command.MaxTokenMillis)
	}
	return c
}

func (w *logWriter) hide() command.Payload {
	c := &command.Hide{Order: w.order(), IDs: []string{w.id()}, Unhide: w.oneOf(2)}
	if w.oneOf(3) {
		c.IDs = append(c.IDs, w.id())
	}
	if w.oneOf(5) {
		c.Agents = []string{w.named()}
	}
	if rows, _, err := w.v.Records(0, 10); err == nil && len(rows) > 0 && w.oneOf(3) {
		c.Of = one(w, rows...).Number
	}
	return c
}

func (w *logWriter) purge() command.Payload {
	c := &command.Purge{Order: fsmtest.ByOperator, IDs: []string{w.id()}}
	if w.oneOf(6) {
		c.Agents = []string{w.named()}
	}
	return c
}

// ruleKinds are drawn from. Senders are the only subjects that are rows of entries.
var ruleKinds = []command.RuleKind{
	command.RuleSender, command.RuleSender, command.RuleSender, command.RuleSender,
	command.RuleName, command.RuleNetwork, command.RuleChannel, command.RulePattern, command.RuleUnproven, command.RuleAll,
}

func (w *logWriter) setRule() command.Payload {
	c := &command.SetRule{Order: w.order(), Kind: one(w, ruleKinds...), For: one[int64](w, 5000, command.HourMillis, 40*command.DayMillis)}
	switch c.Kind {
	case command.RuleSender:
		c.Subject = w.id()
	case command.RuleName:
		c.Subject = w.named()
	case command.RuleNetwork:
		c.Subject = "192.0.2.0/24"
	case command.RuleChannel:
		c.Subject = "channel-1"
	case command.RulePattern:
		c.Subject = one(w, "alpha", "beta")
	case command.RuleUnproven, command.RuleAll:
		c.For = 5000 // they keep most others out
	}
	return c
}

func (w *logWriter) liftRule() command.Payload {
	c := &command.LiftRule{Order: w.order(), Number: 1}
	if rules, _ := w.v.Policy().Rules(0, 10); len(rules) > 0 {
		c.Number = one(w, rules...).Number
	}
	return c
}

// sweep draws the sweep that is due, as the leader does.
func (w *logWriter) sweep() command.Payload {
	next, _, err := w.v.NextSweep(w.log.stamp, 0)
	must.Do(w, err)
	if next == nil || w.oneOf(10) {
		next = &command.Sweep{Over: []uint64{w.seq()}}
	}
	return next
}

func (w *logWriter) report() command.Payload {
	c := fsmtest.Report(w.id(), "")
	c.Agent = w.author()
	c.AgentKey, c.Reason = c.Agent, command.ReportReason(1+w.below(5)) //nolint:gosec // small
	if w.oneOf(4) {
		c.Target = one(w, command.ProfileMark+w.named(), command.ChannelMark+"channel-1")
	}
	return c
}

func (w *logWriter) resolveReports() command.Payload {
	return &command.ResolveReports{Order: w.order(), Targets: []string{w.id(), command.ChannelMark + "channel-1"}, Outcome: command.ReportOutcome(1 + w.below(4))} //nolint:gosec // small
}

// forgetSenders usually lets the time pass until there are senders to forget. The next
// commands are about an entry of one of them.
func (w *logWriter) forgetSenders() command.Payload {
	if !w.oneOf(4) {
		w.log.stamp += int64(must.Get(w.v.Settings())(w).SenderDays) * command.DayMillis //nolint:gosec // small
	}
	w.entry, w.left = 1+uint64(w.below(int(w.v.LastSeq())+1)), 6 //nolint:gosec // small
	return &command.ForgetSenders{}
}
