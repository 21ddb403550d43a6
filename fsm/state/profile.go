package state

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// KeyGrace is how long an unused edit_key can be replaced, in milliseconds of log time: the
// answer with the key may have been lost.
const KeyGrace = 10 * 60 * 1000

// unused reports whether the key was never used and is new.
func (p *ProfileRow) unused(now int64) bool { return !p.Used && now <= p.IssuedAt+KeyGrace }

// NoKey is the hash in place of a key that a profile does not have. It matches no key.
var NoKey [command.KeyHashBytes]byte

// ProfileFields are the fields of a profile that the agent sets.
type ProfileFields struct {
	Description  string
	Capabilities []string
	Endpoint     string
	Note         string
	NotifyURL    string
	NotifySalt   string // of the secret that deliveries are signed with; empty while they are paused
	// NotifyVerified is set when the receiver has passed the check.
	NotifyVerified bool
	Protected      bool // writes under the name need its key
	Deleted        bool // by its owner: only the name is left
}

// Hooked reports whether there is a receiver that entries are pushed to.
func (f *ProfileFields) Hooked() bool { return f.NotifyVerified && f.NotifyURL != "" }

// Paused reports whether deliveries wait for a new secret: the data key of the former one is lost.
func (f *ProfileFields) Paused() bool { return f.Hooked() && f.NotifySalt == "" }

// Equal reports whether both are the same.
func (f ProfileFields) Equal(o ProfileFields) bool {
	return f.Description == o.Description && slices.Equal(f.Capabilities, o.Capabilities) &&
		f.Endpoint == o.Endpoint && f.Note == o.Note && f.NotifyURL == o.NotifyURL && f.NotifySalt == o.NotifySalt && f.NotifyVerified == o.NotifyVerified &&
		f.Protected == o.Protected && f.Deleted == o.Deleted
}

// Texts returns the searched texts of a profile.
func (p *ProfileRow) Texts() []string {
	return append([]string{p.ID, p.Description, p.Note}, p.Capabilities...)
}

// ProfileRow is the row of SpaceProfile.
type ProfileRow struct {
	ProfileFields
	ID       string                     // the name as it was first spelled
	Key      [command.KeyHashBytes]byte // SHA-256 of the edit_key
	Former   [command.KeyHashBytes]byte // of the key before the last rotation; zero before the first
	Recovery [command.KeyHashBytes]byte // SHA-256 of the recovery key
	// FormerRecovery is the recovery key that the newest recovery ended, and RecoveryRequest the
	// request_id of that. They are zero if the edit_key was issued in another way.
	FormerRecovery  [command.KeyHashBytes]byte
	RecoveryRequest ContentSum
	Used            bool   // the agent has shown that it has the key
	Revision        uint64 // number of the newest change of any profile that changed this one
	First           uint64 // the revision that registered the agent
	Issued          uint64 // the revision that issued the key; 0 if a recovery did
	CreatedAt       int64  // milliseconds since the epoch
	UpdatedAt       int64  // the same
	IssuedAt        int64  // of the key; the same
	Sender          string // fingerprint of the registering sender; if empty, no address proves the name
	Issuer          string // fingerprint of the sender that got the key; the same
	HiddenAt        int64  // when a moderator hid it; 0 while it is shown
	HiddenFor       string // why
	HiddenBy        uint64 // the order that hides it, as in HiddenEntry
	Purged          bool   // its texts were erased, and no new ones written since
}

// Hidden reports whether a moderator has hidden the profile.
func (p *ProfileRow) Hidden() bool { return p.HiddenAt != 0 }

// HiddenRevision leads the row of SpaceRevision of a hidden profile, but no agent's key.
const HiddenRevision = "\x00"

// RevisionRow is the profile's row of SpaceRevision. A deleted profile is listed as little as a
// hidden one.
func (p *ProfileRow) RevisionRow(agentKey string) []byte {
	if p.Hidden() || p.Deleted {
		return []byte(HiddenRevision + agentKey)
	}
	return []byte(agentKey)
}

// Fields implements Row.
func (p *ProfileRow) Fields(c *Codec) {
	c.Fields(
		Flags{&p.Used, &p.NotifyVerified, &p.Protected, &p.Purged, &p.Deleted},
		p.Key[:], p.Former[:], p.Recovery[:], p.FormerRecovery[:], p.RecoveryRequest[:],
		&p.Revision, &p.First, &p.Issued, &p.CreatedAt, &p.UpdatedAt, &p.IssuedAt, &p.HiddenAt, &p.HiddenBy, &p.HiddenFor,
		&p.Sender, &p.Issuer, &p.NotifyURL, &p.NotifySalt, &p.ID, &p.Description, &p.Endpoint, &p.Note,
	)
	List(c, &p.Capabilities, func(s *string) { c.Fields(s) })
}

// AppendJSON appends the public fields as JSON.
func (p *ProfileRow) AppendJSON(dst []byte) []byte {
	dst = AppendString(append(dst, `{"id":`...), p.ID)
	dst = AppendString(append(dst, `,"description":`...), p.Description)
	dst = appendStrings(append(dst, `,"capabilities":`...), p.Capabilities)
	dst = AppendOptional(append(dst, `,"endpoint":`...), p.Endpoint)
	dst = AppendOptional(append(dst, `,"note":`...), p.Note)
	dst = AppendInt(append(dst, `,"createdAt":`...), p.CreatedAt)
	dst = AppendInt(append(dst, `,"updatedAt":`...), p.UpdatedAt)
	dst = strconv.AppendBool(append(dst, `,"protected":`...), p.Protected)
	if p.Hidden() {
		dst = appendHiddenMark(dst, p.HiddenAt, p.HiddenFor, p.Purged)
	}
	return append(dst, '}')
}

// IsHiddenRevision reports whether a row of spaceRevision is that of a hidden profile.
func IsHiddenRevision(row []byte) bool { return bytes.HasPrefix(row, []byte(HiddenRevision)) }

// LoadRevision returns the number of the newest revision of any profile; 0
// without one. The newest is never replaced by an older one, so its row is there.
func LoadRevision(r pebble.Reader) (revision uint64, err error) {
	lower, upper := SpaceBounds(SpaceRevision)
	err = ScanBack(r, lower, upper, func(key, _ []byte) error {
		revision = SeqOfKey(key)
		return ErrEnough
	})
	return revision, err
}

// Recovers reports whether a command has the recovery key of the profile. again is set if it has
// the one that the newest recovery ended, and its request_id: the answer with the new pair may
// have been lost.
func (p *ProfileRow) Recovers(c *command.Recover, now int64) (opens, again bool) {
	if sameKey(c.Key, &p.Recovery) {
		return true, false
	}
	again = c.RequestID != "" && p.RecoveryRequest == RecoveryRequest(c) && sameKey(c.Key, &p.FormerRecovery) && p.unused(now)
	return again, again
}

// RecoveryRequest returns a hash of the request_id.
func RecoveryRequest(c *command.Recover) ContentSum { return hashContent([]string{c.RequestID}) }

// recoveredBy returns the standing of a recovery: a wrong recovery key is charged like a wrong key.
// The zero profile is that of an unknown name.
func (p *ProfileRow) recoveredBy(s Reader, c *command.Recover) command.Standing {
	standing := command.Standing{Registered: p.First != 0, Protected: p.Protected}
	if opens, _ := p.Recovers(c, s.Instant()); opens {
		standing.Strength, standing.Established = command.ByKey, p.established(s)
	} else {
		standing.WrongKey = true
	}
	return standing
}

// RecoverProblems returns every problem of a recovery, given the profile.
func RecoverProblems(c *command.Recover, p *ProfileRow, now int64) []command.Problem {
	if opens, _ := p.Recovers(c, now); !opens {
		return []command.Problem{command.ProblemWrongRecovery}
	}
	return nil
}

// Opens reports whether a key is the profile's.
func (p *ProfileRow) Opens(key []byte) bool { return sameKey(key, &p.Key) }

func sameKey(key []byte, hash *[command.KeyHashBytes]byte) bool {
	return len(key) == command.KeyHashBytes && *hash != NoKey && subtle.ConstantTimeCompare(key, hash[:]) == 1
}

// EstablishedAfter is the age from which a registered name has a separate budget, in
// milliseconds of log time: a sender of many such names has to register them long before.
const EstablishedAfter = 7 * command.DayMillis

// established reports whether the name was registered at least EstablishedAfter ago.
func (p *ProfileRow) established(s Reader) bool { return p.CreatedAt <= s.Instant()-EstablishedAfter }

// RegisterProblems returns every problem of a registration; p is nil without a profile.
func RegisterProblems(c *command.Register, s Reader, p *ProfileRow) (problems []command.Problem) {
	old := ProfileFields{}
	if p != nil {
		old = p.ProfileFields
	}
	proven := p == nil || p.Opens(c.Proof.Key)
	next := MergeProfile(c, old, proven)
	changes := !next.Equal(old) || c.RotateKey
	if p == nil && c.Delete {
		return []command.Problem{command.ProblemUnknownAgent}
	}
	switch {
	case !proven && len(c.Proof.Key) > 0:
		return []command.Problem{command.ProblemWrongKey}
	case !proven && (changes || p.Hidden() && c.Given != 0): // a comparison would tell hidden texts
		return []command.Problem{command.ProblemNoKey}
	}
	if (p == nil || old.Deleted && !next.Deleted) && c.Description == "" && c.Note == "" {
		problems = append(problems, command.ProblemNoDescription)
	}
	if p == nil && LookAlike(s, c.AgentKey, c.Proof.Looks) != "" {
		problems = append(problems, command.ProblemLookAlike)
	}
	if changes && c.NotifyURL != "" && !next.NotifyVerified && len(problems) == 0 {
		problems = append(problems, command.ProblemUnchecked)
	}
	owner := c.Proof.Sender
	if p != nil {
		owner = p.Sender
	}
	if next.Protected && !old.Protected && WritersOf(s, c.AgentKey).others(s.Instant(), owner, c.Proof.Sender) {
		problems = append(problems, command.ProblemOthersWrote)
	}
	return problems
}

// MergeProfile returns the fields with those that the command gives. Without proof of the key the
// receiver, which is private, stays as it is: an unchanged profile needs no key, so a comparison
// would tell strangers the receiver. A receiver that is given again gets another secret.
func MergeProfile(c *command.Register, f ProfileFields, proven bool) ProfileFields {
	if c.Delete {
		return ProfileFields{Protected: f.Protected, Deleted: true}
	}
	f.Deleted = f.Deleted && c.Given == 0
	if c.Given&command.FieldDescription != 0 {
		f.Description = c.Description
	}
	if c.Given&command.FieldCapabilities != 0 {
		f.Capabilities = c.Capabilities
	}
	if c.Given&command.FieldEndpoint != 0 {
		f.Endpoint = c.Endpoint
	}
	if c.Given&command.FieldNote != 0 {
		f.Note = c.Note
	}
	if c.Given&command.FieldNotifyURL != 0 && proven {
		f.NotifyVerified = c.NotifyVerified || f.NotifyVerified && f.NotifyURL == c.NotifyURL
		f.NotifyURL, f.NotifySalt = c.NotifyURL, string(c.NotifySalt)
	}
	if c.Given&command.FieldProtected != 0 {
		f.Protected = c.Protected
	}
	return f
}
