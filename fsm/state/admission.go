package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// RequestKey separates the request_ids of writes with the key from all others of a
// name, so that others cannot use them up. Without a name, each sender has its own.
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

// RepeatOf returns what repeatRegister answers; KeyIssued says that the key is to be issued.
func RepeatOf(s Facts, c *command.Register, p *ProfileRow, standing command.Standing, sum ContentSum) (command.Result, bool) {
	// A client that did not get the answer to a rotation still uses the previous key.
	lost := standing.WrongKey && sameKey(c.Proof.Key, &p.Former)
	if lost {
		standing.Strength = command.ByKey
	}
	if c.Request == (command.RequestKey{}) || standing.WrongKey && !lost {
		return command.Result{}, false
	}
	request := requestOf(s, command.OpRegister, standing, c.Signature())
	if !request.Known() {
		return command.Result{}, false
	}
	first, err := Decode[RequestRow](request.Row)
	s.Must(err)
	// A request_id may be guessed, and the rotation may have been meant to disable the
	// previous key. So neither of them alone is enough to renew the key.
	same := first.Content == sum
	issuer := proves(s, &c.Proof, p.Issuer)
	renewed := first.Entry == p.Issued && (issuer || same && !lost) && p.renewable(s.Instant())
	if lost && !renewed {
		return command.Result{}, false
	}
	return command.Result{
		Outcome: command.OutcomeDuplicate, Differs: !same,
		KeyIssued: renewed, RecoveryIssued: renewed && p.Issued == p.First, // the key of a registration comes with it
	}, true
}

// unchanged returns the result of a registration that has no effect. The first call by a new key
// has one: it shows that the owner has the key, unless the profile is purged.
func (j *Admission) unchanged(s Facts, c *command.Register) (command.Result, bool) {
	if !j.Registered {
		return command.Result{}, false
	}
	p := j.Profile
	r, repeated := RepeatOf(s, c, &p, j.Standing, RegisterContent(c))
	switch {
	case r.KeyIssued, !p.Purged && j.Strength == command.ByKey && !p.Used:
		return command.Result{}, false
	case repeated:
		return r, true
	}
	same := !c.RotateKey && MergeProfile(c, p.ProfileFields, p.Opens(c.Proof.Key)).Equal(p.ProfileFields)
	return command.Result{Outcome: command.OutcomeUnchanged}, same && len(AgainstRegister(c, s, &p)) == 0
}

// RegisterContent returns a hash of the client's request, without its key. Stored rows hold
// the hash, so the order of the fields must not change.
func RegisterContent(c *command.Register) ContentSum {
	return hashContent([]string{
		c.Agent, string([]byte{byte(c.Given), Bit(c.Protected, 1), Bit(c.RotateKey, 1), Bit(c.Delete, 1)}), c.Description, c.Endpoint, c.Note, c.NotifyURL, c.Request.ID,
	}, c.Capabilities)
}

// ContentSum is the hash by which a request_id's second body is compared with its first.
type ContentSum [16]byte

// ContentOf returns the hash of a command's content; zero for a command without content.
func ContentOf(p command.Payload) (sum ContentSum) {
	if content := command.ContentOf(p); content != nil {
		sum = hashContent(content...)
	}
	return sum
}

// Repeated is the result of a command whose request_id has a row.
func Repeated(c command.Payload, row []byte) (command.Result, error) {
	first, err := Decode[RequestRow](row)
	return command.Result{Outcome: command.OutcomeDuplicate, Entry: first.Entry, Differs: first.Content != ContentOf(c)}, err
}

// hashContent is a hash of texts, each preceded by its length.
func hashContent(fields ...[]string) (sum ContentSum) {
	h := sha256.New()
	var buf []byte
	for _, texts := range fields {
		for _, s := range texts {
			buf = AppendBlob(buf[:0], s)
			h.Write(buf)
		}
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// RequestRow is the row of spaceRequest.
type RequestRow struct {
	Entry   uint64
	Content ContentSum // of the first content
}

// Fields implements Row.
func (q *RequestRow) Fields(c *Codec) { c.Fields(&q.Entry, q.Content[:]) }

// Admission is the judgement of a command: who signs it, whether it repeats an earlier request, and
// the rules and limits that all commands share. Its Proof is nil for a command without a signature. A
// command is judged by View.Admit at the node that takes it, by View.Assess at the leader for its
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

// Admit returns the admission of a command.
func Admit(s Facts, p command.Payload) Admission {
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
func WriterOf(s Facts, by command.Signature) Admission {
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
func (j *Admission) LookUp(s Facts, op command.Op) RequestRef {
	if j.Request == (command.RequestKey{}) || j.WrongKey {
		return RequestRef{}
	}
	return requestOf(s, op, j.Standing, j.Signature)
}

// requestOf looks up a request_id in the scope of a standing.
func requestOf(s Facts, op command.Op, standing command.Standing, by command.Signature) (r RequestRef) {
	r.Key = RequestKey(op, standing, by.Request, by.Proof.Sender)
	r.Row, _ = s.Get(r.Key)
	return r
}

// Repeated reports whether the command's request_id was used before.
func (j *Admission) Repeated() bool { return j.RequestAt.Known() }

// Repeat returns the result of a command without an effect: its request_id was used before,
// its sender has reported the subject before, or the profile has these values already.
func (j *Admission) Repeat(s Facts, p command.Payload) (r command.Result, repeats bool) {
	switch c := p.(type) {
	case *command.Register:
		return j.unchanged(s, c)
	case *command.Report:
		_, earlier, problems := j.Reported(s, c.Target)
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}, earlier != 0 && len(problems) == 0
	}
	if !j.Repeated() {
		return r, false
	}
	r, err := Repeated(p, j.RequestAt.Row)
	s.Must(err)
	return r, true
}

// PolicyCheck is the result of a policy for a write.
type PolicyCheck struct {
	Revision   uint64 // for Proof.Policy; 0 if the write was not checked, or there is no policy yet
	Rule       *Rule  // that rejects the write, or nil
	ProvenOnly bool   // the settings reject the write: see command.Settings
}

// CheckPolicy checks a command against a policy where a request arrives. It passes a repeated
// request, which has no effect.
func (j *Admission) CheckPolicy(s Facts, policy *Policy, p command.Payload, from netip.Addr) (c PolicyCheck) {
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

// A write to a new channel opens it. A sender without the key of an established name may open
// a few in a day of log time, so that a flood does not push others off the list of channels.

// ChannelsKey is the row that counts the channels that a sender has opened in a day.
func ChannelsKey(day command.Day, sender string) []byte {
	key := append(DayKey(SpaceBudget, day), 'c')
	return binary.BigEndian.AppendUint64(key, uint64(hashSender(sender)))
}

// opensChannel reports whether a command opens a channel that counts against its sender.
func (j *Admission) opensChannel(s Facts, p command.Payload) bool {
	name := ChannelOfCommand(s, p)
	if name == "" || j.Proof.Sender == "" || j.Established || unlimited(s, j.Proof) {
		return false
	}
	_, known := s.Get(ChannelKey(name))
	return !known
}

// OverLimit returns the daily limit of new channels or of erasures that a command is over, or 0, and
// whether it opens a channel that counts against its sender.
func (j *Admission) OverLimit(s Facts, p command.Payload) (problem command.Problem, opens bool) {
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
