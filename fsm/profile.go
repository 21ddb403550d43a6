package fsm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// keyGrace is how long an agent that has not used its newest edit_key yet can get a new
// one instead, in milliseconds of log time: the answer with the key may have been lost.
const keyGrace = 10 * 60 * 1000

// applyRegister registers the agent or changes its profile. The result says whether the
// new key is now the agent's; it has no Entry.
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
	r, repeated := repeatOf(tx, c, p, s, sum)
	if r.KeyIssued {
		copy(p.key[:], c.NewKey)
		tx.putProfile(c.AgentKey, p)
	}
	return r, repeated
}

// repeatOf returns what repeatRegister answers; KeyIssued says that the key is to be issued.
func repeatOf(s facts, c *command.Register, p *profileRow, standing command.Standing, sum contentSum) (command.Result, bool) {
	// A client that did not get the answer to a rotation still uses the previous key.
	lost := standing.WrongKey && sameKey(c.Proof.Key, &p.former)
	if lost {
		standing.Strength = command.ByKey
	}
	if c.Request == (command.RequestKey{}) || standing.WrongKey && !lost {
		return command.Result{}, false
	}
	_, row, ok := requestOf(s, command.OpRegister, standing, c.Signature())
	if !ok {
		return command.Result{}, false
	}
	first, err := decodeRequestRow(row)
	s.must(err)
	// A request_id may be guessed, and the rotation may have been meant to disable the
	// previous key. So neither of them alone is enough to renew the key.
	same := first.content == sum
	issuer := proves(&c.Proof, p.issuer)
	renewed := first.entry == p.issued && (issuer || same && !lost) && p.renewable(s.instant())
	if lost && !renewed {
		return command.Result{}, false
	}
	return command.Result{Outcome: command.OutcomeDuplicate, Differs: !same, KeyIssued: renewed}, true
}

// unchanged returns the result of a registration that changes nothing: not the profile, not
// its key, nor what is known of its owner. For a purged profile, nothing of the owner is noted.
func unchanged(s facts, c *command.Register) (command.Result, bool) {
	p, known := read(s, profileKey(c.AgentKey), decodeProfileRow)
	if !known {
		return command.Result{}, false
	}
	standing := p.standing(&c.Proof, s.instant())
	r, repeated := repeatOf(s, c, &p, standing, registerContent(c))
	switch {
	case r.KeyIssued, !p.purged && (standing.Strength == command.ByKey && !p.used || p.follow(&c.Proof)):
		return command.Result{}, false
	case repeated:
		return r, true
	}
	same := !c.RotateKey && mergeProfile(c, p.profileFields).equal(p.profileFields)
	return command.Result{Outcome: command.OutcomeUnchanged}, same && len(againstRegister(c, s, &p)) == 0
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
	p.profileFields, p.purged = next, false
	if c.RotateKey {
		tx.issueKey(c, &p)
	}
	tx.putRevision(c, &p, command.Standing{Strength: command.ByKey}, sum) // no other write changes a profile
	tx.followHook(c.AgentKey, &old, &next)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: c.RotateKey}
}

// issueKey sets the profile's key to the command's, as of the profile's next revision.
func (tx *txn) issueKey(c *command.Register, p *profileRow) {
	p.former = p.key
	copy(p.key[:], c.NewKey)
	p.used, p.issued, p.issuedAt, p.issuer = false, tx.revision+1, tx.now, provingSender(&c.Proof)
}

// putRevision stores the next revision of a profile, and under the request_id, in the scope
// of a standing, that this request made it.
func (tx *txn) putRevision(c *command.Register, p *profileRow, s command.Standing, sum contentSum) {
	p.updatedAt = tx.now
	tx.revise(c.AgentKey, p)
	if c.Request != (command.RequestKey{}) {
		tx.keep(requestKey(command.OpRegister, s, c.Request, c.Proof.Sender), requestRow{entry: p.revision, content: sum}.encode())
	}
}

// revise stores a profile as its next revision.
func (tx *txn) revise(agentKey string, p *profileRow) {
	if p.revision != 0 {
		tx.keep(seqKey(spaceRevision, p.revision), nil)
	}
	tx.revision++
	p.revision = tx.revision
	tx.putProfile(agentKey, p)
	tx.keep(seqKey(spaceRevision, p.revision), p.revisionRow(agentKey))
	tx.revised = append(tx.revised, revised{p.revision, p.texts()})
}

// renewable reports whether the key may be replaced because it was never used: for a while,
// the agent may not have received it. That of a purged profile is not: the repeated
// registration would put its text into the log again.
func (p *profileRow) renewable(now int64) bool {
	return !p.used && !p.purged && now <= p.issuedAt+keyGrace
}

// againstRegister returns every rule that rejects the command, given the profile; p is nil
// when there is no profile yet.
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
	if p != nil && next.protected && !old.protected && writersOf(s, c.AgentKey).others(s.instant(), p.sender, c.Proof.Sender, c.Proof.Former) {
		problems = append(problems, command.ProblemOthersWrote)
	}
	return problems
}

// againstName returns every rule that rejects a new name.
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

// registerContent is a hash of what the client sent, except its key. Stored rows hold the
// hash, so the order of the fields must not change.
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
//	version1 flags1 filter1 key32 former32 revision first issued createdAt updatedAt issuedAt
//	hiddenAt hiddenFor sender issuer notifyURL id description endpoint note capabilities...
//
// Numbers are uvarints, texts are preceded by their length.
type profileRow struct {
	profileFields
	id        string                     // the name as it was first spelled
	key       [command.KeyHashBytes]byte // SHA-256 of the edit_key
	former    [command.KeyHashBytes]byte // of the key before the last rotation; zero: none
	used      bool                       // the agent has shown that it has the key
	house     bool
	revision  uint64 // number of the newest change of any profile that changed this one
	first     uint64 // the revision that registered the agent
	issued    uint64 // the revision that issued the key
	createdAt int64  // milliseconds since the epoch
	updatedAt int64  // the same
	issuedAt  int64  // of the key; the same
	sender    string // fingerprint of the registering sender; "": proves nothing
	issuer    string // fingerprint of the sender that got the key; the same
	hiddenAt  int64  // when a moderator hid it; 0: it is shown
	hiddenFor string // why
	purged    bool   // its texts were erased, and no new ones written since
}

// hidden reports whether nothing of the profile is shown.
func (p *profileRow) hidden() bool { return p.hiddenAt != 0 }

// hiddenRevision leads the row of spaceRevision of a hidden profile. No key of an agent
// begins with it.
const hiddenRevision = "\x00"

func isHiddenRevision(row []byte) bool { return bytes.HasPrefix(row, []byte(hiddenRevision)) }

// revisionRow is the profile's row of spaceRevision.
func (p *profileRow) revisionRow(agentKey string) []byte {
	if p.hidden() {
		return []byte(hiddenRevision + agentKey)
	}
	return []byte(agentKey)
}

const (
	profileRowVersion = 1

	flagKeyUsed        = 1 << 0
	flagProfileHouse   = 1 << 1
	flagNotifyVerified = 1 << 2
	flagProtected      = 1 << 3
	flagProfilePurged  = 1 << 4
)

func (p *profileRow) append(dst []byte) []byte {
	flags := bit(p.used, flagKeyUsed) | bit(p.house, flagProfileHouse) | bit(p.notifyVerified, flagNotifyVerified) | bit(p.protected, flagProtected) | bit(p.purged, flagProfilePurged)
	dst = append(dst, profileRowVersion, flags, byte(p.filter))
	dst = append(append(dst, p.key[:]...), p.former[:]...)
	for _, n := range [...]uint64{p.revision, p.first, p.issued, uint64(p.createdAt), uint64(p.updatedAt), uint64(p.issuedAt), uint64(p.hiddenAt)} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, s := range [...]string{p.hiddenFor, p.sender, p.issuer, p.notifyURL, p.id, p.description, p.endpoint, p.note} {
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
	r.version(profileRowVersion)
	flags := r.byte()
	p.used, p.house = flags&flagKeyUsed != 0, flags&flagProfileHouse != 0
	p.notifyVerified, p.protected = flags&flagNotifyVerified != 0, flags&flagProtected != 0
	p.purged = flags&flagProfilePurged != 0
	p.filter = command.PushFilter(r.byte())
	copy(p.key[:], r.bytes(command.KeyHashBytes))
	copy(p.former[:], r.bytes(command.KeyHashBytes))
	p.revision, p.first, p.issued = r.uint(), r.uint(), r.uint()
	p.createdAt, p.updatedAt, p.issuedAt = int64(r.uint()), int64(r.uint()), int64(r.uint())
	p.hiddenAt, p.hiddenFor = int64(r.uint()), r.text()
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

// maxProfileScan is how many hits of a search for profiles are looked at for
// one page: revisions that were replaced since are hits, too.
const maxProfileScan = 4096

// Profile is what an agent says of itself (interface, 2.3). Empty texts are
// missing.
type Profile struct {
	ID           string // the name as it was first spelled
	Description  string
	Capabilities []string
	Endpoint     string
	Note         string
	CreatedAt    int64 // milliseconds since the epoch
	UpdatedAt    int64 // the same
	Protected    bool  // writes under the name need its edit_key
}

// Profile returns an agent's profile; false when it has none.
func (v *View) Profile(agentKey string) (Profile, bool, error) {
	p, known, err := v.shownProfile(agentKey)
	if err != nil || !known {
		return Profile{}, false, err
	}
	return Profile{
		ID: p.id, Description: p.description, Capabilities: p.capabilities, Endpoint: p.endpoint,
		Note: p.note, CreatedAt: p.createdAt, UpdatedAt: p.updatedAt, Protected: p.protected,
	}, true, nil
}

// shownProfile is profile as everybody may see it.
func (v *View) shownProfile(agentKey string) (profileRow, bool, error) {
	p, known, err := v.profile(agentKey)
	if p.hidden() {
		p.profileFields = profileFields{protected: p.protected}
	}
	return p, known, err
}

func (v *View) profile(agentKey string) (profileRow, bool, error) {
	s := &viewState{v: v}
	row, known := s.get(profileKey(agentKey))
	if s.err != nil || !known {
		return profileRow{}, false, s.err
	}
	p, err := decodeProfileRow(row)
	return p, err == nil, err
}

// RegisterProblems returns everything against a change of a profile, as far as
// the view knows.
func (v *View) RegisterProblems(c *command.Register) ([]command.Problem, error) {
	p, known, err := v.profile(c.AgentKey)
	if err != nil {
		return nil, err
	}
	s := &viewState{v: v}
	if !known {
		return againstRegister(c, s, nil), s.err
	}
	return againstRegister(c, s, &p), s.err
}

// AppendProfile appends the profile's JSON to dst. It returns ErrNotFound when
// the agent has none.
func (v *View) AppendProfile(dst []byte, agentKey string) ([]byte, error) {
	p, known, err := v.shownProfile(agentKey)
	if err != nil {
		return dst, err
	}
	if !known {
		return dst, ErrNotFound
	}
	return p.appendJSON(dst), nil
}

// AppendOriginalProfile is AppendProfile for moderators: of a hidden profile it shows
// what its owner wrote.
func (v *View) AppendOriginalProfile(dst []byte, agentKey string) ([]byte, error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return dst, cmp.Or(err, ErrNotFound)
	}
	return p.appendJSON(dst), nil
}

// AppendRevisions is AppendProfile for profiles that ListProfiles has returned, with
// commas between them.
func (v *View) AppendRevisions(dst []byte, revisions []uint64) ([]byte, error) {
	return appendEach(dst, revisions, func(dst []byte, i int) ([]byte, error) { return v.appendRevision(dst, revisions[i]) })
}

func (v *View) appendRevision(dst []byte, revision uint64) ([]byte, error) {
	agentKey, ok, err := getRow(v.snap, seqKey(spaceRevision, revision))
	if err != nil {
		return dst, err
	}
	if !ok {
		return dst, ErrNotFound
	}
	return v.AppendProfile(dst, string(agentKey))
}

// appendJSON writes what everybody may see.
func (p *profileRow) appendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), p.id)
	dst = appendString(append(dst, `,"description":`...), p.description)
	dst = append(dst, `,"capabilities":[`...)
	for i, s := range p.capabilities {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	dst = appendOptional(append(dst, `],"endpoint":`...), p.endpoint)
	dst = appendOptional(append(dst, `,"note":`...), p.note)
	dst = appendInt(append(dst, `,"createdAt":`...), p.createdAt)
	dst = appendInt(append(dst, `,"updatedAt":`...), p.updatedAt)
	dst = appendBool(append(dst, `,"protected":`...), p.protected)
	if p.hidden() {
		dst = appendHiddenMark(dst, p.hiddenAt, p.hiddenFor, p.purged)
	}
	return append(dst, '}')
}

// ProfileQuery selects profiles. Zero values select everything.
type ProfileQuery struct {
	Q      string // holding all of these words, the last one as a prefix
	Limit  int    // at most this many; 0: DefaultList; at most MaxList
	Before uint64 // revision < Before; 0: from the newest
	Work   *int   // grows by the steps that the search takes; nil: not counted
}

// ListProfiles returns the revisions of the profiles that match q, most recently
// updated first, and the Before of the next page; 0 on the last page. A page of
// a search may be short, or even empty, and yet not the last one.
func (v *View) ListProfiles(q ProfileQuery) (revisions []uint64, next uint64, err error) {
	q.Limit = pageLimit(q.Limit)
	if q.Q != "" {
		revisions, next, err = v.searchProfiles(q)
	} else {
		revisions, next, err = v.newestProfiles(q)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list profiles: %w", err)
	}
	return revisions, next, nil
}

// newestProfiles lists all profiles. Those that are hidden are stepped over, a bounded
// number of them.
func (v *View) newestProfiles(q ProfileQuery) (found []uint64, next uint64, err error) {
	lower, upper := spaceBounds(spaceRevision)
	if q.Before > 0 {
		upper = seqKey(spaceRevision, q.Before)
	}
	scanned := 0
	err = scanBack(v.snap, lower, upper, func(key, agentKey []byte) error {
		if len(found) == q.Limit || scanned == maxProfileScan {
			next = seqOfKey(key) + 1
			return errEnough
		}
		scanned++
		if !isHiddenRevision(agentKey) {
			found = append(found, seqOfKey(key))
		}
		return nil
	})
	return found, next, err
}

// searchProfiles finds profiles by words. The index knows every revision that
// there ever was; it looks at a bounded number of them.
func (v *View) searchProfiles(q ProfileQuery) (found []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: command.MaxList, Work: q.Work}
	if !addWords(q.Q, &search) {
		return nil, 0, nil
	}
	for scanned := 0; ; {
		hits, more, err := v.profiles.Search(v.snap, search)
		if err != nil {
			return nil, 0, err
		}
		for _, revision := range hits {
			row, newest, err := getRow(v.snap, seqKey(spaceRevision, revision))
			if err != nil || !newest || isHiddenRevision(row) {
				if err != nil {
					return nil, 0, err
				}
				continue
			}
			if len(found) == q.Limit {
				return found, found[len(found)-1], nil
			}
			found = append(found, revision)
		}
		if !more {
			return found, 0, nil
		}
		search.Before = hits[len(hits)-1]
		if scanned += len(hits); scanned >= maxProfileScan {
			return found, search.Before, nil
		}
	}
}
