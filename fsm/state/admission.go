package state

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// RequestKey is the key of a request_id. Writes with the key of a name have request_ids apart from
// other writes under the name, so that others cannot use them up. Without a name, each sender has
// its own.
func RequestKey(op command.Op, s command.Standing, k command.RequestKey, sender string) []byte {
	scope := k.Scope
	if k.IsAnonymous() {
		scope += sender
	}
	key := append(make([]byte, 0, 5+len(scope)+len(k.ID)), spaceRequest, byte(op), 0)
	if s.Strength == command.ByKey {
		key[2] = 1
	}
	key = binary.BigEndian.AppendUint16(key, uint16(len(scope)))
	return append(append(key, scope...), k.ID...)
}

// ProvenOnly reports whether the settings reject a command because it proves no name. A
// name that is new has to be registered first.
func (j *Admission) ProvenOnly(p command.Payload) bool {
	if j.Strength > command.Unproven || !j.Settings.ProvenOnly {
		return false
	}
	rule := command.Describe(p).Proof
	return rule == command.ProofNeeded || rule == command.ProofIfRegistered && j.Registered
}

// RepeatOf returns the result of a registration whose request_id was used before, and whether it
// was. KeyIssued is set if apply has to issue the new key.
func RepeatOf(s Reader, c *command.Register, p *ProfileRow, standing command.Standing, sum ContentSum) (command.Result, bool) {
	// A client that did not get the answer to a rotation still uses the previous key.
	lost := standing.WrongKey && sameKey(c.Proof.Key, &p.Former)
	holds := standing.Strength == command.ByKey // the key, and uses it by this call
	if lost {
		standing.Strength = command.ByKey
	}
	if c.Request == (command.RequestKey{}) || standing.WrongKey && !lost {
		return command.Result{}, false
	}
	request := requestOf(s, command.OpRegister, standing, c.Signature())
	first, known := request.First(s)
	if !known {
		return command.Result{}, false
	}
	// A request_id may be guessed, and the rotation may have been meant to disable the previous
	// key: neither of them alone renews the key. The key of a purged profile is never renewed,
	// because the repeated registration would log its text again.
	same := first.Content == sum
	issuer := fromAddress(&c.Proof, p.Issuer) && !shared(s, &c.Proof)
	renewed := !holds && first.Entry == p.Issued && (issuer || same && !lost) && p.unused(s.Instant()) && !p.Purged
	if lost && !renewed {
		return command.Result{}, false
	}
	return command.Result{
		Outcome: command.OutcomeDuplicate, Differs: !same,
		KeyIssued: renewed, RecoveryIssued: renewed && p.Issued == p.First, // the key of a registration comes with it
	}, true
}

// unchanged returns the result of a registration without an effect, and whether it has none. A
// repeated one renews a key that was never used, and the first call with a new key has the effect
// that the key counts as used, unless the profile is purged.
func (j *Admission) unchanged(s Reader, c *command.Register) (command.Result, bool) {
	if !j.Registered {
		return command.Result{}, false
	}
	p := j.Profile
	r, repeated := RepeatOf(s, c, &p, j.Standing, RegisterContent(c))
	if r.KeyIssued || !p.Purged && j.Strength == command.ByKey && !p.Used {
		return r, false
	}
	if repeated {
		return r, true
	}
	same := !c.RotateKey && MergeProfile(c, p.ProfileFields, p.Opens(c.Proof.Key)).Equal(p.ProfileFields)
	return command.Result{Outcome: command.OutcomeUnchanged}, same && len(RegisterProblems(c, s, &p)) == 0
}

// RegisterContent returns a hash of the client's request, without its key. Stored rows hold
// the hash, so the order of the fields must not change.
func RegisterContent(c *command.Register) ContentSum {
	return hashContent([]string{
		c.Agent, string([]byte{byte(c.Given), Bit(c.Protected, 1), Bit(c.RotateKey, 1), Bit(c.Delete, 1)}), c.Description, c.Endpoint, c.Note, c.NotifyURL, c.Request.ID,
	}, c.Capabilities)
}

// ContentOf returns the hash of a command's content; zero for a command without content.
func ContentOf(p command.Payload) (sum ContentSum) {
	if content := command.ContentOf(p); content != nil {
		sum = hashContent(content...)
	}
	return sum
}

// RequestRow is the row of spaceRequest.
type RequestRow struct {
	Entry   uint64
	Content ContentSum // of the first content
}

// Fields implements Row.
func (q *RequestRow) Fields(c *Codec) { c.Fields(&q.Entry, q.Content[:]) }

// Admission is the judgement of a command: its signer, whether it repeats an earlier request, and
// the rules and limits that all commands share. Its Proof is nil for a command without a signature.
// A command is judged by View.Admit at the node that takes it, by View.Assess at the leader for its
// limits, and when it is applied.
type Admission struct {
	Writer
	Profile   ProfileRow // of the writer; zero unless Registered
	RequestAt RequestRef
	Settings  command.Settings
}

// RequestRef is the place of a request_id in the state.
type RequestRef struct {
	Key []byte // where to store it; nil for a write without a request_id
	Row []byte // as it is stored; nil if the request_id is new
}

// Known reports whether the request_id was used before.
func (r *RequestRef) Known() bool { return r.Row != nil }

// First returns the row of the request_id's first use, and whether there was one.
func (r *RequestRef) First(s Reader) (first RequestRow, known bool) {
	if known = r.Known(); known {
		var err error
		first, err = Decode[RequestRow](r.Row)
		s.Must(err)
	}
	return first, known
}

// Admit returns the admission of a command.
func Admit(s Reader, p command.Payload) Admission {
	by, signed := command.SignatureOf(p)
	if !signed {
		return Admission{}
	}
	j := WriterOf(s, by)
	if c, recovers := p.(*command.Recover); recovers {
		j.Standing = j.Profile.recoveredBy(s, c)
	}
	j.Settings = SettingsOf(s)
	j.RequestAt = j.LookUp(s, command.OpOf(p))
	return j
}

// WriterOf returns the admission of a signature alone.
func WriterOf(s Reader, by command.Signature) Admission {
	j := Admission{Writer: Writer{Signature: by}}
	if by.AgentKey == command.AnonymousName {
		return j
	}
	if p, known := Read(s, ProfileKey(by.AgentKey), Decode[ProfileRow]); known {
		j.Profile, j.Standing = p, p.standing(s, by.Proof)
	}
	return j
}

// LookUp looks up the writer's request_id. It finds no request for a wrong key.
func (j *Admission) LookUp(s Reader, op command.Op) RequestRef {
	if j.Request == (command.RequestKey{}) || j.WrongKey {
		return RequestRef{}
	}
	return requestOf(s, op, j.Standing, j.Signature)
}

// requestOf looks up a request_id in the scope of a standing.
func requestOf(s Reader, op command.Op, standing command.Standing, by command.Signature) (r RequestRef) {
	r.Key = RequestKey(op, standing, by.Request, by.Proof.Sender)
	r.Row, _ = s.Get(r.Key)
	return r
}

// Repeated reports whether the command's request_id was used before.
func (j *Admission) Repeated() bool { return j.RequestAt.Known() }

// Repeat returns the result of a command without an effect: its request_id was used before,
// its sender has reported the subject before, or the profile has these values already.
func (j *Admission) Repeat(s Reader, p command.Payload) (r command.Result, repeats bool) {
	switch c := p.(type) {
	case *command.Register:
		return j.unchanged(s, c)
	case *command.Report:
		_, earlier, problems := j.Reported(s, c.Target)
		if repeats = earlier != 0 && len(problems) == 0; repeats {
			r = command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}
		}
		return r, repeats
	}
	first, repeats := j.RequestAt.First(s)
	if repeats {
		r = command.Result{Outcome: command.OutcomeDuplicate, Entry: first.Entry, Differs: first.Content != ContentOf(p)}
	}
	return r, repeats
}

// PolicyCheck is the result of checking a write against a policy.
type PolicyCheck struct {
	Revision   uint64 // for Proof.Policy; 0 if the write was not checked, or there is no policy yet
	Rule       *Rule  // that rejects the write, or nil
	ProvenOnly bool   // the settings reject the write: see command.Settings
}

// CheckPolicy checks a command against a policy where a request arrives. It passes a repeated
// request, which has no effect.
func (j *Admission) CheckPolicy(s Reader, policy *Policy, p command.Payload, from netip.Addr) (c PolicyCheck) {
	if j.Repeated() {
		return c
	}
	c.Revision = policy.Revision
	c.Rule = cmp.Or(policy.OfSender(j.Proof.Sender), policy.ofNetwork(from), policy.Against(s, p, &j.Writer))
	c.ProvenOnly = c.Rule == nil && j.ProvenOnly(p)
	if c.Rule == nil && !c.ProvenOnly { // patterns cost the most
		c.Rule = policy.inTexts(p)
	}
	return c
}

// opensChannel reports whether a command opens a channel that counts against its sender.
func (j *Admission) opensChannel(s Reader, p command.Payload) bool {
	name := ChannelOfCommand(s, p)
	if name == "" || j.Proof.Sender == "" || j.Established || unlimited(s, j.Proof) {
		return false
	}
	_, known := s.Get(ChannelKey(name))
	return !known
}

// OverLimit returns the daily limit of new channels or of erasures that a command is over, or 0, and
// whether it opens a channel that counts against its sender.
func (j *Admission) OverLimit(s Reader, p command.Payload) (problem command.Problem, opens bool) {
	day := command.DayOf(s.Instant())
	if opens = j.opensChannel(s, p); opens && slices.ContainsFunc(SharesOf(j.Proof, "", 1), func(sh Share) bool {
		n := sh.counted(s, func(of string) []byte { return ChannelsKey(day, of) })
		return n >= sh.times*command.MaxNewChannels
	}) {
		return command.ProblemNewChannels, opens
	}
	if c, publishes := p.(*command.Publish); publishes && c.Erase {
		own, _ := Read(s, ErasuresKey(day, c.AgentKey), DecodeNumber)
		all, _ := Read(s, ErasuresKey(day, ""), DecodeNumber)
		if own >= command.MaxErasures || all >= command.MaxAllErasures {
			return command.ProblemErasures, opens
		}
	}
	return 0, opens
}

// MaxBudgetSenders bounds the individual counts of a day. Later ones share rows by their
// hash.
const (
	MaxBudgetSenders = 1 << 16
	overflowRows     = 1 << 16
)

// BudgetOf returns the used part of a day's budget.
func BudgetOf(s Reader, day command.Day) Budget {
	if b, _ := Read(s, KeyBudget, Decode[Budget]); b.Day == day {
		return b
	}
	return Budget{Day: day}
}

// Counted is the use of a share on a day, and its row.
type Counted struct {
	command.Use
	Key   []byte
	Known bool
}

// Budget is the used part of a day's budget: the row of SpaceBudget.
type Budget struct {
	Day     command.Day // in UTC
	Bytes   uint64      // of commands
	Senders uint64      // networks and names that made them; from MaxBudgetSenders on, they are not counted
}

// Fields implements Row.
func (b *Budget) Fields(c *Codec) { c.Fields(&b.Day, &b.Bytes, &b.Senders) }

// SenderKey returns the row that counts a sender's bytes, which others may share.
func (b Budget) SenderKey(s Reader, sender string) (key []byte, known bool) {
	hash := binary.BigEndian.AppendUint64(nil, uint64(hashSender(sender)))
	key = append(DayKey(SpaceBudget, b.Day), hash...)
	if _, known = s.Get(key); known || b.Senders < MaxBudgetSenders {
		return key, known
	}
	shared := binary.BigEndian.Uint64(hash) % overflowRows
	return binary.BigEndian.AppendUint16(DayKey(SpaceBudget, b.Day), uint16(shared)), true
}

// budgeted returns the shares that a signed command counts against. Established names are
// counted separately from other writes of an address.
func budgeted(w *Writer) (shares []Share) {
	if w.Proof == nil {
		return nil
	}
	prefix, times := "", uint64(1)
	if w.Established {
		prefix, times = "established ", command.EstablishedShare
		shares = append(shares, Share{Of: "name " + w.AgentKey, times: times})
	}
	return append(shares, SharesOf(w.Proof, prefix, times)...)
}

// Fits returns the use of a command's shares, and whether the command fits the budget.
func (b Budget) Fits(s Reader, j *Admission, bytes int) (uses []Counted, fits bool) {
	shares := budgeted(&j.Writer)
	used := make([]command.Use, len(shares))
	for i, sh := range shares {
		key, known := b.SenderKey(s, sh.Of)
		n, _ := Read(s, key, DecodeNumber)
		uses = append(uses, Counted{command.Use{Bytes: n, Times: sh.times}, key, known})
		used[i] = uses[i].Use
	}
	return uses, len(uses) == 0 || j.Settings.Fits(uint64(bytes), b.Bytes, j.Established, used...)
}
