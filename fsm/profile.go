package fsm

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// keyGrace is for how long an agent that has not used its newest edit_key yet can have
// it made anew, in milliseconds of log time: the answer that held it may have been lost.
const keyGrace = 10 * 60 * 1000

// applyRegister registers the agent or changes its profile. The result says whether the
// new key is the agent's; its Entry is none.
func (tx *txn) applyRegister(c *command.Register) command.Result {
	w := tx.writer(c.Signature())
	p, known := tx.profile(c.AgentKey)
	if !known {
		return tx.createProfile(c)
	}
	sum := registerContent(c)
	if result, repeated := tx.repeatRegister(c, &p, w.Standing, sum); repeated {
		return result
	}
	return tx.changeProfile(c, p, sum)
}

// repeatRegister answers a request_id that was used before; false for any other. Where that
// request issued the agent's key, and the answer may have been lost, it issues another.
func (tx *txn) repeatRegister(c *command.Register, p *profileRow, s command.Standing, sum contentSum) (command.Result, bool) {
	// Who has not got the answer to a rotation still uses the key before.
	lost := s.WrongKey && sameKey(c.Proof.Key, &p.former)
	if lost {
		s.Strength = command.ByKey
	}
	if c.Request == (command.RequestKey{}) || s.WrongKey && !lost {
		return command.Result{}, false
	}
	row, ok := tx.get(requestKey(command.OpRegister, s, c.Request))
	if !ok {
		return command.Result{}, false
	}
	first, err := decodeRequestRow(row)
	tx.must(err)
	// A request_id may be guessed, and the key before may be what was to be got rid of:
	// alone they renew nothing.
	same := first.content == sum
	issuer := provingSender(&c.Proof) != "" && provingSender(&c.Proof) == p.issuer
	renewed := first.entry == p.issued && (issuer || same && !lost) && tx.renewKey(c, p)
	if lost && !renewed {
		return command.Result{}, false
	}
	return command.Result{Outcome: command.OutcomeDuplicate, Differs: !same, KeyIssued: renewed}, true
}

// createProfile registers an agent.
func (tx *txn) createProfile(c *command.Register) command.Result {
	if problems := againstRegister(c, tx, nil); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	p := profileRow{
		id: c.Agent, profileFields: mergeProfile(c, profileFields{}), first: tx.revision + 1,
		createdAt: tx.now, sender: provingSender(&c.Proof), house: c.House,
	}
	tx.issueKey(c, &p)
	tx.putRevision(c, &p, command.Standing{}, registerContent(c))
	for look := range slices.Chunk(c.Proof.Looks, command.LookBytes) {
		tx.keep(lookKey(look), []byte(c.AgentKey))
	}
	tx.followHook(c.AgentKey, &profileFields{}, &p.profileFields)
	tx.countRegistration(c.House)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true}
}

// changeProfile carries a change of a profile out, if it is one and the rules allow it.
func (tx *txn) changeProfile(c *command.Register, p profileRow, sum contentSum) command.Result {
	if problems := againstRegister(c, tx, &p); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	next := mergeProfile(c, p.profileFields)
	if next.equal(p.profileFields) && !c.RotateKey {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	old := p.profileFields
	p.profileFields = next
	if c.RotateKey {
		tx.issueKey(c, &p)
	}
	tx.putRevision(c, &p, command.Standing{Strength: command.ByKey}, sum) // no other write changes a profile
	tx.followHook(c.AgentKey, &old, &next)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: c.RotateKey}
}

// issueKey makes the command's key that of the profile, with the profile's next revision.
func (tx *txn) issueKey(c *command.Register, p *profileRow) {
	p.former = p.key
	copy(p.key[:], c.NewKey)
	p.used, p.issued, p.issuedAt, p.issuer = false, tx.revision+1, tx.now, provingSender(&c.Proof)
}

// putRevision stores the next revision of a profile, and that the request_id made it, in the
// scope of a standing.
func (tx *txn) putRevision(c *command.Register, p *profileRow, s command.Standing, sum contentSum) {
	if p.revision != 0 {
		tx.keep(seqKey(spaceRevision, p.revision), nil)
	}
	tx.revision++
	p.revision, p.updatedAt = tx.revision, tx.now
	tx.putProfile(c.AgentKey, p)
	tx.keep(seqKey(spaceRevision, p.revision), []byte(c.AgentKey))
	tx.revised = append(tx.revised, revised{p.revision, p.texts()})
	if c.Request != (command.RequestKey{}) {
		tx.keep(requestKey(command.OpRegister, s, c.Request), requestRow{entry: p.revision, content: sum}.append(nil))
	}
}

// renewKey replaces a key that was never used, for a while: who asked for it has not
// seen it.
func (tx *txn) renewKey(c *command.Register, p *profileRow) bool {
	if p.used || tx.now > p.issuedAt+keyGrace {
		return false
	}
	copy(p.key[:], c.NewKey)
	tx.putProfile(c.AgentKey, p)
	return true
}

// againstRegister returns every rule against the command, given the profile; nil: there
// is none yet.
func againstRegister(c *command.Register, s facts, p *profileRow) (problems []command.Problem) {
	old := profileFields{}
	if p != nil {
		old = p.profileFields
	}
	next := mergeProfile(c, old)
	changes := !next.equal(old) || c.RotateKey
	switch proven := p == nil || p.opens(c.Proof.Key); {
	case !proven && len(c.Proof.Key) > 0:
		return []command.Problem{command.ProblemWrongKey}
	case !proven && changes:
		return []command.Problem{command.ProblemNoKey}
	case p == nil:
		problems = againstName(c, s)
	}
	if changes && c.NotifyURL != "" && !next.notifyVerified && len(problems) == 0 {
		problems = append(problems, command.ProblemUnchecked)
	}
	if p != nil && next.protected && !old.protected && writersOf(s, c.AgentKey).others(s.instant(), p.sender, c.Proof.Sender) {
		problems = append(problems, command.ProblemOthersWrote)
	}
	return problems
}

// againstName returns every rule against a new name.
func againstName(c *command.Register, s facts) (problems []command.Problem) {
	if c.Description == "" && c.Note == "" {
		problems = append(problems, command.ProblemNoDescription)
	}
	if lookAlike(s, c.AgentKey, c.Proof.Looks) != "" {
		problems = append(problems, command.ProblemLookAlike)
	}
	if c.Protected {
		problems = append(problems, command.ProblemProtectNew)
	}
	return problems
}

// registerContent is a hash of what the client said, but for its key. The fields'
// order stands in stored rows.
func registerContent(c *command.Register) contentSum {
	return hashContent([]string{
		c.Agent, string([]byte{byte(c.Given), byte(c.Notify), boolByte(c.Protected), boolByte(c.RotateKey)}), c.Description, c.Endpoint, c.Note, c.NotifyURL, c.Request.ID,
	}, c.Capabilities)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
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
	protected      bool               // writes under the name need its key
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
	if c.Given&command.FieldProtected != 0 {
		f.protected = c.Protected
	}
	return f
}

func (f profileFields) equal(o profileFields) bool {
	return f.description == o.description && slices.Equal(f.capabilities, o.capabilities) &&
		f.endpoint == o.endpoint && f.note == o.note && f.notifyURL == o.notifyURL && f.notifyVerified == o.notifyVerified &&
		f.filter == o.filter && f.protected == o.protected
}

// texts returns what a profile is found by.
func (p *profileRow) texts() []string {
	return append([]string{p.id, p.description, p.note}, p.capabilities...)
}

// profileRow is the row of spaceProfile.
//
//	version1 flags1 key32 former32 revision first issued createdAt updatedAt issuedAt
//	sender issuer notifyURL id description endpoint note capabilities...
//
// Numbers are uvarints, texts are preceded by their length.
type profileRow struct {
	profileFields
	id        string                     // the name as it was first spelled
	key       [command.KeyHashBytes]byte // SHA-256 of the edit_key
	former    [command.KeyHashBytes]byte // of the one that it replaced by the agent's wish; zero: none
	used      bool                       // the agent has shown that it has the key
	house     bool
	revision  uint64 // number of the newest change of any profile that changed this one
	first     uint64 // the revision that registered the agent
	issued    uint64 // the one that issued the key
	createdAt int64  // milliseconds since the epoch
	updatedAt int64  // the same
	issuedAt  int64  // of the key; the same
	sender    string // fingerprint of who registered; "": proves nothing
	issuer    string // of whom the key was issued to; the same
}

const (
	profileRowVersion = 1

	flagKeyUsed        = 1 << 0
	flagProfileHouse   = 1 << 1
	flagNotifyVerified = 1 << 2
	profileFilterShift = 3 // the push filter stands in the four bits above
	flagProtected      = 1 << 7
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
	if p.protected {
		flags |= flagProtected
	}
	dst = append(dst, profileRowVersion, flags|byte(p.filter)<<profileFilterShift)
	dst = append(append(dst, p.key[:]...), p.former[:]...)
	for _, n := range [...]uint64{p.revision, p.first, p.issued, uint64(p.createdAt), uint64(p.updatedAt), uint64(p.issuedAt)} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, s := range [...]string{p.sender, p.issuer, p.notifyURL, p.id, p.description, p.endpoint, p.note} {
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
		p.protected = head[1]&flagProtected != 0
	}
	copy(p.key[:], r.bytes(command.KeyHashBytes))
	copy(p.former[:], r.bytes(command.KeyHashBytes))
	p.revision, p.first, p.issued = r.uint(), r.uint(), r.uint()
	p.createdAt, p.updatedAt, p.issuedAt = int64(r.uint()), int64(r.uint()), int64(r.uint())
	p.sender, p.issuer, p.notifyURL = r.text(), r.text(), r.text()
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
