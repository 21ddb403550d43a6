package fsm

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// keyGrace is for how long after its registration an agent that has not used its
// edit_key yet can have it made anew, in milliseconds of log time: the answer
// that held it may have been lost.
const keyGrace = 10 * 60 * 1000

// applyRegister registers the agent or changes its profile. The result says whether the
// new key is the agent's; its Entry is none.
func (tx *txn) applyRegister(c *command.Register) command.Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return tx.createProfile(c)
	}
	if p.opens(c.Proof.Key) {
		tx.useKey(c.AgentKey, &p)
	}
	sum := registerContent(c)
	sameSender := c.Proof.Sender != "" && c.Proof.Sender == p.sender
	if c.Request != (command.RequestKey{}) {
		if row, ok := tx.get(requestKey(command.OpRegister, c.Request)); ok {
			first, err := decodeRequestRow(row)
			tx.must(err)
			// A request_id may be guessed: alone it renews nothing.
			same := first.content == sum
			return command.Result{
				Outcome: command.OutcomeDuplicate, Differs: !same,
				KeyIssued: first.entry == p.first && (same || sameSender) && tx.renewKey(c, &p),
			}
		}
	}
	if len(c.Proof.Key) == 0 && sameSender && sum == p.registered && tx.renewKey(c, &p) {
		return command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true}
	}
	return tx.changeProfile(c, p, sum)
}

// createProfile registers an agent.
func (tx *txn) createProfile(c *command.Register) command.Result {
	if problems := againstRegister(c, nil); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	sum := registerContent(c)
	p := profileRow{
		id: c.Agent, profileFields: mergeProfile(c, profileFields{}), first: tx.revision + 1,
		createdAt: tx.now, sender: c.Proof.Sender, registered: sum, house: c.House,
	}
	copy(p.key[:], c.NewKey)
	tx.putRevision(c, &p, sum)
	tx.followHook(c.AgentKey, &profileFields{}, &p.profileFields)
	tx.countRegistration(c.House)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true}
}

// changeProfile carries a change of a profile out, if it is one and the rules allow it.
func (tx *txn) changeProfile(c *command.Register, p profileRow, sum contentSum) command.Result {
	if problems := againstRegister(c, &p); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	next := mergeProfile(c, p.profileFields)
	if next.equal(p.profileFields) {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	old := p.profileFields
	p.profileFields = next
	tx.putRevision(c, &p, sum)
	tx.followHook(c.AgentKey, &old, &next)
	return command.Result{Outcome: command.OutcomeDone}
}

// putRevision stores the next revision of a profile, and that the request_id made it.
func (tx *txn) putRevision(c *command.Register, p *profileRow, sum contentSum) {
	if p.revision != 0 {
		tx.keep(seqKey(spaceRevision, p.revision), nil)
	}
	tx.revision++
	p.revision, p.updatedAt = tx.revision, tx.now
	tx.putProfile(c.AgentKey, p)
	tx.keep(seqKey(spaceRevision, p.revision), []byte(c.AgentKey))
	tx.revised = append(tx.revised, revised{p.revision, p.texts()})
	if c.Request != (command.RequestKey{}) {
		tx.keep(requestKey(command.OpRegister, c.Request), requestRow{entry: p.revision, content: sum}.append(nil))
	}
}

// renewKey replaces a key that was never used, for a while: whoever registered
// has not seen it.
func (tx *txn) renewKey(c *command.Register, p *profileRow) bool {
	if p.used || tx.now > p.createdAt+keyGrace {
		return false
	}
	copy(p.key[:], c.NewKey)
	tx.putProfile(c.AgentKey, p)
	return true
}

// againstRegister returns every rule against the command, given the profile; nil: there
// is none yet.
func againstRegister(c *command.Register, p *profileRow) []command.Problem {
	old := profileFields{}
	if p != nil {
		old = p.profileFields
	}
	next := mergeProfile(c, old)
	changes := !next.equal(old)
	switch proven := p == nil || p.opens(c.Proof.Key); {
	case p == nil && c.Description == "" && c.Note == "":
		return []command.Problem{command.ProblemNoDescription}
	case !proven && len(c.Proof.Key) > 0:
		return []command.Problem{command.ProblemWrongKey}
	case !proven && changes:
		return []command.Problem{command.ProblemNoKey}
	case changes && c.NotifyURL != "" && !next.notifyVerified:
		return []command.Problem{command.ProblemUnchecked}
	}
	return nil
}

// registerContent is a hash of what the client said, but for its key. The fields'
// order stands in stored rows.
func registerContent(c *command.Register) contentSum {
	return hashContent([]string{
		c.Agent, string([]byte{byte(c.Given), byte(c.Notify)}), c.Description, c.Endpoint, c.Note, c.NotifyURL, c.Request.ID,
	}, c.Capabilities)
}

// profileFields are what an agent says of itself.
type profileFields struct {
	description  string
	capabilities []string
	endpoint     string
	note         string
	notifyURL    string
	// notifyVerified is set when the receiver has passed the check.
	notifyVerified bool
	filter         command.PushFilter // of what is pushed there
}

// hooked reports whether there is a receiver that entries are pushed to.
func (f *profileFields) hooked() bool { return f.notifyVerified && f.notifyURL != "" }

// mergeProfile returns the fields with those that the command gives.
func mergeProfile(c *command.Register, f profileFields) profileFields {
	if c.Given&command.FieldDescription != 0 {
		f.description = c.Description
	}
	if c.Given&command.FieldCapabilities != 0 {
		f.capabilities = c.Capabilities
	}
	if c.Given&command.FieldEndpoint != 0 {
		f.endpoint = c.Endpoint
	}
	if c.Given&command.FieldNote != 0 {
		f.note = c.Note
	}
	if c.Given&command.FieldNotifyURL != 0 {
		f.notifyVerified = c.NotifyVerified || f.notifyVerified && f.notifyURL == c.NotifyURL
		f.notifyURL = c.NotifyURL
	}
	if c.Given&command.FieldNotify != 0 {
		f.filter = c.Notify
	}
	return f
}

func (f profileFields) equal(o profileFields) bool {
	return f.description == o.description && slices.Equal(f.capabilities, o.capabilities) &&
		f.endpoint == o.endpoint && f.note == o.note && f.notifyURL == o.notifyURL && f.notifyVerified == o.notifyVerified &&
		f.filter == o.filter
}

// texts returns what a profile is found by.
func (p *profileRow) texts() []string {
	return append([]string{p.id, p.description, p.note}, p.capabilities...)
}

// profileRow is the row of spaceProfile.
//
//	version1 flags1 key32 registered16 revision first createdAt updatedAt
//	sender notifyURL id description endpoint note capabilities...
//
// Numbers are uvarints, texts are preceded by their length.
type profileRow struct {
	profileFields
	id         string                     // the name as it was first spelled
	key        [command.KeyHashBytes]byte // SHA-256 of the edit_key
	used       bool                       // the agent has shown that it has the key
	house      bool
	revision   uint64     // number of the newest change of any profile that changed this one
	first      uint64     // the revision that registered the agent
	createdAt  int64      // milliseconds since the epoch
	updatedAt  int64      // the same
	sender     string     // fingerprint of who registered; "": not told
	registered contentSum // of what was said then
}

const (
	profileRowVersion = 1

	flagKeyUsed        = 1 << 0
	flagProfileHouse   = 1 << 1
	flagNotifyVerified = 1 << 2
	profileFilterShift = 3 // the push filter stands in the four bits above
)

func (p *profileRow) append(dst []byte) []byte {
	var flags byte
	if p.used {
		flags |= flagKeyUsed
	}
	if p.house {
		flags |= flagProfileHouse
	}
	if p.notifyVerified {
		flags |= flagNotifyVerified
	}
	dst = append(dst, profileRowVersion, flags|byte(p.filter)<<profileFilterShift)
	dst = append(append(dst, p.key[:]...), p.registered[:]...)
	for _, n := range [...]uint64{p.revision, p.first, uint64(p.createdAt), uint64(p.updatedAt)} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, s := range [...]string{p.sender, p.notifyURL, p.id, p.description, p.endpoint, p.note} {
		dst = appendBlob(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.capabilities)))
	for _, s := range p.capabilities {
		dst = appendBlob(dst, s)
	}
	return dst
}

func decodeProfileRow(row []byte) (p profileRow, err error) {
	r := rowReader{rest: row}
	if head := r.bytes(2); head != nil {
		r.bad = head[0] != profileRowVersion
		p.used, p.house = head[1]&flagKeyUsed != 0, head[1]&flagProfileHouse != 0
		p.notifyVerified, p.filter = head[1]&flagNotifyVerified != 0, command.PushFilter(head[1]>>profileFilterShift)&command.AllPushFilters
	}
	copy(p.key[:], r.bytes(command.KeyHashBytes))
	copy(p.registered[:], r.bytes(contentHashBytes))
	p.revision, p.first = r.uint(), r.uint()
	p.createdAt, p.updatedAt = int64(r.uint()), int64(r.uint())
	p.sender, p.notifyURL = r.text(), r.text()
	p.id, p.description, p.endpoint, p.note = r.text(), r.text(), r.text(), r.text()
	for n := r.uint(); n > 0 && !r.bad; n-- {
		p.capabilities = append(p.capabilities, r.text())
	}
	return p, r.done("profile row")
}

// profile returns an agent's profile as the call has left it so far; false when
// it has none.
func (tx *txn) profile(agentKey string) (profileRow, bool) {
	return read(tx, profileKey(agentKey), decodeProfileRow)
}

// putProfile stores a profile.
func (tx *txn) putProfile(agentKey string, p *profileRow) {
	tx.keep(profileKey(agentKey), p.append(nil))
}
