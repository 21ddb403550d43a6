package state

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// KeyGrace is how long an unused edit_key can be replaced, in milliseconds of log time: the
// answer with the key may have been lost.
const KeyGrace = 10 * 60 * 1000

// renewable reports whether the key may be replaced because it was never used. That of a
// purged profile may not: the repeated registration would log its text again.
func (p *ProfileRow) renewable(now int64) bool {
	return !p.Used && !p.Purged && now <= p.IssuedAt+KeyGrace
}

// ProfileFields are the fields of a profile that the agent sets.
type ProfileFields struct {
	Description  string
	Capabilities []string
	Endpoint     string
	Note         string
	NotifyURL    string
	// NotifyVerified is set when the receiver has passed the check.
	NotifyVerified bool
	Protected      bool // writes under the name need its key
	RecoverBy      bool // the receiver may replace the key, see RecoveredBy
	Deleted        bool // by its owner: only the name is left
}

// Hooked reports whether there is a receiver that entries are pushed to.
func (f *ProfileFields) Hooked() bool { return f.NotifyVerified && f.NotifyURL != "" }

// Equal reports whether both are the same.
func (f ProfileFields) Equal(o ProfileFields) bool {
	return f.Description == o.Description && slices.Equal(f.Capabilities, o.Capabilities) &&
		f.Endpoint == o.Endpoint && f.Note == o.Note && f.NotifyURL == o.NotifyURL && f.NotifyVerified == o.NotifyVerified &&
		f.Protected == o.Protected && f.RecoverBy == o.RecoverBy && f.Deleted == o.Deleted
}

// Texts returns the searched texts of a profile.
func (p *ProfileRow) Texts() []string {
	return append([]string{p.ID, p.Description, p.Note}, p.Capabilities...)
}

// ProfileRow is the row of SpaceProfile.
//
//	version1 flags1 key32 former32 revision first issued CreatedAt UpdatedAt IssuedAt
//	HiddenAt record5 HiddenFor sender issuer NotifyURL id description endpoint note
//	len(capabilities) capabilities... earlier codes...
//
// Numbers are uvarints, texts are preceded by their length.
type ProfileRow struct {
	ProfileFields
	ID        string                     // the name as it was first spelled
	Key       [command.KeyHashBytes]byte // SHA-256 of the edit_key
	Former    [command.KeyHashBytes]byte // of the key before the last rotation; zero before the first
	Used      bool                       // the agent has shown that it has the key
	House     bool
	Revision  uint64 // number of the newest change of any profile that changed this one
	First     uint64 // the revision that registered the agent
	Issued    uint64 // the revision that issued the key
	CreatedAt int64  // milliseconds since the epoch
	UpdatedAt int64  // the same
	IssuedAt  int64  // of the key; the same
	Sender    string // fingerprint of the registering sender; if empty, no address proves the name
	Issuer    string // fingerprint of the sender that got the key; the same
	HiddenAt  int64  // when a moderator hid it; 0 while it is shown
	HiddenFor string // why
	Purged    bool   // its texts were erased, and no new ones written since
	Record    JobRecord
	Earlier   EarlierReceiver
	Codes     []Code // of the last day, oldest first
}

// JobRecord counts an agent's jobs and claims by outcome, of those made with its key. Done,
// Accepted and Rejected are of its results, Expired of its claims.
type JobRecord struct{ Posted, Done, Accepted, Rejected, Expired uint64 }

// appendJSON appends the record as a member of a profile, unless it is empty.
func (r *JobRecord) appendJSON(dst []byte) []byte {
	if *r == (JobRecord{}) {
		return dst
	}
	dst = strconv.AppendUint(append(dst, `,"record":{"posted":`...), r.Posted, 10)
	dst = strconv.AppendUint(append(dst, `,"done":`...), r.Done, 10)
	dst = strconv.AppendUint(append(dst, `,"accepted":`...), r.Accepted, 10)
	dst = strconv.AppendUint(append(dst, `,"rejected":`...), r.Rejected, 10)
	return append(strconv.AppendUint(append(dst, `,"expired":`...), r.Expired, 10), '}')
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

const (
	profileRowVersion = 1

	flagKeyUsed        = 1 << 0
	flagProfileHouse   = 1 << 1
	flagNotifyVerified = 1 << 2
	flagProtected      = 1 << 3
	flagProfilePurged  = 1 << 4
	flagRecoverBy      = 1 << 5
	flagDeleted        = 1 << 6
)

// Append encodes the row.
func (p *ProfileRow) Append(dst []byte) []byte {
	flags := Bit(p.Used, flagKeyUsed) | Bit(p.House, flagProfileHouse) | Bit(p.NotifyVerified, flagNotifyVerified) | Bit(p.Protected, flagProtected) | Bit(p.Purged, flagProfilePurged) |
		Bit(p.RecoverBy, flagRecoverBy) | Bit(p.Deleted, flagDeleted)
	dst = append(dst, profileRowVersion, flags)
	dst = append(append(dst, p.Key[:]...), p.Former[:]...)
	dst = AppendUints(dst, p.Revision, p.First, p.Issued, uint64(p.CreatedAt), uint64(p.UpdatedAt), uint64(p.IssuedAt), uint64(p.HiddenAt),
		p.Record.Posted, p.Record.Done, p.Record.Accepted, p.Record.Rejected, p.Record.Expired)
	for _, s := range [...]string{p.HiddenFor, p.Sender, p.Issuer, p.NotifyURL, p.ID, p.Description, p.Endpoint, p.Note} {
		dst = AppendBlob(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Capabilities)))
	for _, s := range p.Capabilities {
		dst = AppendBlob(dst, s)
	}
	return p.appendRecovery(dst)
}

// DecodeProfileRow decodes a row of spaceProfile.
func DecodeProfileRow(row []byte) (p ProfileRow, err error) {
	r := RowReader{Rest: row}
	r.Version(profileRowVersion)
	flags := r.Byte()
	p.Used, p.House = flags&flagKeyUsed != 0, flags&flagProfileHouse != 0
	p.NotifyVerified, p.Protected = flags&flagNotifyVerified != 0, flags&flagProtected != 0
	p.Purged, p.RecoverBy, p.Deleted = flags&flagProfilePurged != 0, flags&flagRecoverBy != 0, flags&flagDeleted != 0
	copy(p.Key[:], r.bytes(command.KeyHashBytes))
	copy(p.Former[:], r.bytes(command.KeyHashBytes))
	p.Revision, p.First, p.Issued = r.Uint(), r.Uint(), r.Uint()
	p.CreatedAt, p.UpdatedAt, p.IssuedAt = int64(r.Uint()), int64(r.Uint()), int64(r.Uint())
	p.HiddenAt = int64(r.Uint())
	p.Record = JobRecord{Posted: r.Uint(), Done: r.Uint(), Accepted: r.Uint(), Rejected: r.Uint(), Expired: r.Uint()}
	p.HiddenFor = r.Text()
	p.Sender, p.Issuer, p.NotifyURL = r.Text(), r.Text(), r.Text()
	p.ID, p.Description, p.Endpoint, p.Note = r.Text(), r.Text(), r.Text(), r.Text()
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		p.Capabilities = append(p.Capabilities, r.Text())
	}
	p.readRecovery(&r)
	return p, r.Done("profile row")
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
	dst = p.Record.appendJSON(dst)
	if p.Hidden() {
		dst = appendHiddenMark(dst, p.HiddenAt, p.HiddenFor, p.Purged)
	}
	return append(dst, '}')
}

// Follow replaces pseudonyms of the last epoch by the sender's present one, if there are
// any.
func (p *ProfileRow) Follow(proof *command.Proof) (changed bool) {
	for _, pseudonym := range [...]*string{&p.Sender, &p.Issuer} {
		if *pseudonym != "" && *pseudonym == proof.Former {
			*pseudonym, changed = proof.Sender, true
		}
	}
	return changed
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

// EarlierReceiver is the receiver that a profile had before its key, its receiver or its
// recover_by was changed. The change may be a thief's, so until an instant this receiver alone
// can recover the name. The zero value means that there was no such change.
type EarlierReceiver struct {
	URL       string
	Until     int64 // milliseconds since the epoch
	RecoverBy bool  // of the profile then
}

// Code is a recovery code of a name. Its digits are a hash of the name, the number and the
// instant.
type Code struct {
	Number  uint64     // of the delivery that brings it
	At      int64      // when it was made, in milliseconds since the epoch
	To      string     // the receiver
	Issued  uint64     // the revision that issued a key for it; 0 while it is unused
	Request ContentSum // of the request_id that it was used with
}

// appendRecovery appends the end of a profile's row:
//
//	until recoverBy1 URL len(codes) (number at to issued request16)...
func (p *ProfileRow) appendRecovery(dst []byte) []byte {
	e := &p.Earlier
	dst = append(AppendUints(dst, uint64(e.Until)), Bit(e.RecoverBy, 1))
	dst = binary.AppendUvarint(AppendBlob(dst, e.URL), uint64(len(p.Codes)))
	for i := range p.Codes {
		c := &p.Codes[i]
		dst = AppendBlob(AppendUints(dst, c.Number, uint64(c.At)), c.To)
		dst = append(AppendUints(dst, c.Issued), c.Request[:]...)
	}
	return dst
}

func (p *ProfileRow) readRecovery(r *RowReader) {
	p.Earlier = EarlierReceiver{Until: int64(r.Uint()), RecoverBy: r.Byte() != 0, URL: r.Text()}
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		c := Code{Number: r.Uint(), At: int64(r.Uint()), To: r.Text(), Issued: r.Uint()}
		r.Fill(c.Request[:])
		p.Codes = append(p.Codes, c)
	}
}

// RecoveredBy returns the receiver that gets a code for the name at an instant, or "".
func (p *ProfileRow) RecoveredBy(now int64) string {
	switch e := &p.Earlier; {
	case now < e.Until && (e.RecoverBy || p.RecoverBy):
		return e.URL
	case now >= e.Until && p.RecoverBy && p.Hooked():
		return p.NotifyURL
	}
	return ""
}

// CodesAt returns the codes that count against the limit of a day at an instant.
func (p *ProfileRow) CodesAt(now int64) []Code {
	return slices.DeleteFunc(slices.Clone(p.Codes), func(c Code) bool { return c.At <= now-command.DayMillis })
}

// Redeemable returns the code of a Redeem, or nil if it is unknown or too old, or was used. A
// used one can be used again with its request_id while its key was not, since the answer may
// have been lost.
func (p *ProfileRow) Redeemable(c *command.Redeem, now int64) *Code {
	i := slices.IndexFunc(p.Codes, func(code Code) bool { return code.Number == c.Number })
	if i < 0 {
		return nil
	}
	code := &p.Codes[i]
	open := code.Issued == 0 && now <= code.At+command.CodeMillis
	again := code.Issued != 0 && code.Issued == p.Issued && c.RequestID != "" && code.Request == RedeemContent(c) && p.renewable(now)
	if open || again {
		return code
	}
	return nil
}

// RedeemContent returns a hash of the request_id.
func RedeemContent(c *command.Redeem) ContentSum { return hashContent([]string{c.RequestID}) }

// RecoveryKey returns the row with the instant at which a sender last asked for a code. It is
// one of the day in which the sender's hour ends, so that it is deleted later.
func RecoveryKey(ends int64, sender string) []byte {
	key := append(DayKey(SpaceBudget, command.DayOf(ends)), 'r')
	return binary.BigEndian.AppendUint64(key, uint64(hashSender(sender)))
}

// MayAskCode reports whether a sender may ask for a code.
func MayAskCode(s Facts, proof *command.Proof) bool {
	now := s.Instant()
	for _, sender := range [...]string{proof.Sender, proof.Former} {
		for _, ends := range [...]int64{now, now + command.HourMillis} {
			if at, known := Read(s, RecoveryKey(ends, sender), DecodeNumber); sender != "" && known && now < int64(at)+command.HourMillis {
				return unlimited(s, proof)
			}
		}
	}
	return true
}
