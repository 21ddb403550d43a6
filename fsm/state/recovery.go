package state

import (
	"encoding/binary"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

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
