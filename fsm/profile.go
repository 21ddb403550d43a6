package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// keyGrace is for how long after its registration an agent that has not used its
// edit_key yet can have it made anew, in milliseconds of log time: the answer
// that held it may have been lost.
const keyGrace = 10 * 60 * 1000

// ProfileFields says which fields of a profile a command gives.
type ProfileFields uint8

// The fields of a profile. The numbers stand in logs.
const (
	FieldDescription  ProfileFields = 1 << 0
	FieldCapabilities ProfileFields = 1 << 1
	FieldEndpoint     ProfileFields = 1 << 2
	FieldNote         ProfileFields = 1 << 3
	FieldNotifyURL    ProfileFields = 1 << 4
	FieldNotify       ProfileFields = 1 << 5

	allProfileFields = 1<<6 - 1
)

// Register registers an agent, or changes its profile. Fields that are not given
// keep their value; one that is given and empty is cleared.
type Register struct {
	Agent    string        `cbor:"1,keyasint"` // the name as the reader sees it
	AgentKey string        `cbor:"2,keyasint"` // text.Fold(Agent)
	Given    ProfileFields `cbor:"3,keyasint"`

	Description  string   `cbor:"4,keyasint,omitempty"`
	Capabilities []string `cbor:"5,keyasint,omitempty"`
	Endpoint     string   `cbor:"6,keyasint,omitempty"`
	Note         string   `cbor:"7,keyasint,omitempty"`
	NotifyURL    string   `cbor:"8,keyasint,omitempty"` // where entries are pushed to; never shown

	// Proof holds the key that allows the change, and the sender.
	Proof Proof `cbor:"9,keyasint,omitempty"`
	// NewKey is the SHA-256 of the key that the agent gets if one is due.
	NewKey  []byte     `cbor:"10,keyasint"`
	House   bool       `cbor:"11,keyasint,omitempty"` // one of the operator's own agents
	Request RequestKey `cbor:"12,keyasint,omitempty"` // the client's idempotency key; the zero value is none
	// NotifyVerified is set when the receiver at NotifyURL has passed the check. One
	// that has not is taken only where it stands in the profile and passed before.
	NotifyVerified bool `cbor:"13,keyasint,omitempty"`
	// Notify says which entries are not pushed there.
	Notify PushFilter `cbor:"14,keyasint,omitempty"`
}

func (*Register) op() Op { return OpRegister }

func (c *Register) request() RequestKey { return c.Request }

func (c *Register) check() error {
	return errors.Join(
		checkText("agent", c.Agent, MinName, MaxName),
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		c.checkGiven(),
		checkOptional("description", c.Description, MinDescription, MaxDescription),
		checkAll("capabilities", c.Capabilities, MaxCapabilities, func(s string) error {
			return checkText("capability", s, MinCapability, MaxCapability)
		}),
		checkText("endpoint", c.Endpoint, 0, MaxURL),
		checkText("note", c.Note, 0, MaxNote),
		checkText("notify url", c.NotifyURL, 0, MaxURL),
		c.Proof.check(),
		checkRange("new key", len(c.NewKey), KeyHashBytes, KeyHashBytes, "bytes"),
		c.Request.check(),
	)
}

// checkGiven refuses unknown fields, values of fields that are not given, and a
// profile of nobody.
func (c *Register) checkGiven() error {
	switch {
	case c.AgentKey == AnonymousName:
		return errors.New("nobody is registered")
	case c.Given > allProfileFields:
		return fmt.Errorf("fields %b", c.Given)
	case !c.merge(profileFields{}).equal(profileFields{
		c.Description, c.Capabilities, c.Endpoint, c.Note, c.NotifyURL, c.NotifyVerified, c.Notify,
	}):
		return errors.New("a value of a field that is not given")
	case c.Notify > allPushFilters:
		return fmt.Errorf("push filter %b", c.Notify)
	case c.NotifyVerified && c.NotifyURL == "":
		return errors.New("a check of no receiver")
	}
	return nil
}

// checkOptional is checkText for a text that may be missing.
func checkOptional(field, s string, least, most int) error {
	if s == "" {
		return nil
	}
	return checkText(field, s, least, most)
}

// apply registers the agent or changes its profile. The result says whether the
// new key is the agent's; its Entry is none.
func (c *Register) apply(tx *txn) Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return c.create(tx)
	}
	if p.opens(c.Proof.Key) {
		tx.useKey(c.AgentKey, &p)
	}
	sum := c.contentHash()
	sameSender := c.Proof.Sender != "" && c.Proof.Sender == p.sender
	if c.Request != (RequestKey{}) {
		if row, ok := tx.get(requestKey(OpRegister, c.Request)); ok {
			first, err := decodeRequestRow(row)
			tx.must(err)
			// A request_id may be guessed: alone it renews nothing.
			same := first.content == sum
			return Result{
				Outcome: OutcomeDuplicate, Differs: !same,
				KeyIssued: first.entry == p.first && (same || sameSender) && c.renewKey(tx, &p),
			}
		}
	}
	if len(c.Proof.Key) == 0 && sameSender && sum == p.registered && c.renewKey(tx, &p) {
		return Result{Outcome: OutcomeDuplicate, KeyIssued: true}
	}
	return c.change(tx, p, sum)
}

// create registers an agent.
func (c *Register) create(tx *txn) Result {
	if problems := c.against(nil); len(problems) > 0 {
		return Result{Outcome: OutcomeRejected, Problems: problems}
	}
	sum := c.contentHash()
	p := profileRow{
		id: c.Agent, profileFields: c.merge(profileFields{}), first: tx.revision + 1,
		createdAt: tx.now, sender: c.Proof.Sender, registered: sum, house: c.House,
	}
	copy(p.key[:], c.NewKey)
	c.put(tx, &p, sum)
	tx.followHook(c.AgentKey, &profileFields{}, &p.profileFields)
	tx.countRegistration(c.House)
	return Result{Outcome: OutcomeDone, KeyIssued: true}
}

// change carries a change of a profile out, if it is one and the rules allow it.
func (c *Register) change(tx *txn, p profileRow, sum contentSum) Result {
	if problems := c.against(&p); len(problems) > 0 {
		return Result{Outcome: OutcomeRejected, Problems: problems}
	}
	next := c.merge(p.profileFields)
	if next.equal(p.profileFields) {
		return Result{Outcome: OutcomeUnchanged}
	}
	old := p.profileFields
	p.profileFields = next
	c.put(tx, &p, sum)
	tx.followHook(c.AgentKey, &old, &next)
	return Result{Outcome: OutcomeDone}
}

// put stores the next revision of a profile, and that the request_id made it.
func (c *Register) put(tx *txn, p *profileRow, sum contentSum) {
	if p.revision != 0 {
		old := makeSeqKey(spaceRevision, p.revision)
		tx.keep(old[:], nil)
	}
	tx.revision++
	p.revision, p.updatedAt = tx.revision, tx.now
	tx.putProfile(c.AgentKey, p)
	key := makeSeqKey(spaceRevision, p.revision)
	tx.keep(key[:], []byte(c.AgentKey))
	tx.revised = append(tx.revised, revised{p.revision, p.texts()})
	if c.Request != (RequestKey{}) {
		tx.keep(requestKey(OpRegister, c.Request), requestRow{entry: p.revision, content: sum}.append(nil))
	}
}

// renewKey replaces a key that was never used, for a while: whoever registered
// has not seen it.
func (c *Register) renewKey(tx *txn, p *profileRow) bool {
	if p.used || tx.now > p.createdAt+keyGrace {
		return false
	}
	copy(p.key[:], c.NewKey)
	tx.putProfile(c.AgentKey, p)
	return true
}

// against returns every rule against the command, given the profile; nil: there
// is none yet.
func (c *Register) against(p *profileRow) []Problem {
	old := profileFields{}
	if p != nil {
		old = p.profileFields
	}
	next := c.merge(old)
	changes := !next.equal(old)
	switch proven := p == nil || p.opens(c.Proof.Key); {
	case p == nil && c.Description == "" && c.Note == "":
		return []Problem{ProblemNoDescription}
	case !proven && len(c.Proof.Key) > 0:
		return []Problem{ProblemWrongKey}
	case !proven && changes:
		return []Problem{ProblemNoKey}
	case changes && c.NotifyURL != "" && !next.notifyVerified:
		return []Problem{ProblemUnchecked}
	}
	return nil
}

// contentHash is a hash of what the client said, but for its key. The fields'
// order stands in stored rows.
func (c *Register) contentHash() contentSum {
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
	filter         PushFilter // of what is pushed there
}

// hooked reports whether there is a receiver that entries are pushed to.
func (f *profileFields) hooked() bool { return f.notifyVerified && f.notifyURL != "" }

// merge returns the fields with those that the command gives.
func (c *Register) merge(f profileFields) profileFields {
	if c.Given&FieldDescription != 0 {
		f.description = c.Description
	}
	if c.Given&FieldCapabilities != 0 {
		f.capabilities = c.Capabilities
	}
	if c.Given&FieldEndpoint != 0 {
		f.endpoint = c.Endpoint
	}
	if c.Given&FieldNote != 0 {
		f.note = c.Note
	}
	if c.Given&FieldNotifyURL != 0 {
		f.notifyVerified = c.NotifyVerified || f.notifyVerified && f.notifyURL == c.NotifyURL
		f.notifyURL = c.NotifyURL
	}
	if c.Given&FieldNotify != 0 {
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
	id         string             // the name as it was first spelled
	key        [KeyHashBytes]byte // SHA-256 of the edit_key
	used       bool               // the agent has shown that it has the key
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
		p.notifyVerified, p.filter = head[1]&flagNotifyVerified != 0, PushFilter(head[1]>>profileFilterShift)&allPushFilters
	}
	copy(p.key[:], r.bytes(KeyHashBytes))
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
	row, ok := tx.get(profileKey(agentKey))
	if !ok {
		return profileRow{}, false
	}
	p, err := decodeProfileRow(row)
	tx.must(err)
	return p, true
}

// putProfile stores a profile.
func (tx *txn) putProfile(agentKey string, p *profileRow) {
	tx.keep(profileKey(agentKey), p.append(nil))
}
