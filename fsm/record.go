package fsm

import (
	"crypto/subtle"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
)

// There are two records of one form: of what moderators and operators did to what
// others wrote, and of changes in the cluster. They are separate so that a cluster whose
// leader changes all the time does not push out what moderators are responsible for.
//
// maxRecorded and maxChanges are how many of the newest rows they keep, and
// maxRecordedBytes how much of a row says what was acted on: so they take 640 MiB at most.
// Older rows are deleted; the numbers show that they existed.
const (
	maxRecorded      = 100_000
	maxChanges       = 10_000
	maxRecordedBytes = 4096
)

// journal is where a record is kept.
type journal struct {
	space  byte
	newest []byte // key of the number of the newest row
	keeps  uint64
}

var (
	moderationRecord = journal{spaceRecord, keyRecorded, maxRecorded}
	changeRecord     = journal{spaceChange, keyChanged, maxChanges}
)

// What is done, as the record names it.
const (
	ActionHide            = "hide"
	ActionUnhide          = "unhide"
	ActionPurge           = "purge"
	ActionDestroyDisk     = "destroy_disk"
	ActionSetModerator    = "set_moderator"
	ActionRemoveModerator = "remove_moderator"
	ActionSettings        = "settings"
	ActionResolve         = "resolve"
	ActionHold            = "hold" // texts with watched words; the other rules have ruleActions
)

// What changes in the cluster, as the record names it, beside the changes of
// command.NoteChange.
const (
	ActionLead          = "lead"
	ActionForm          = "form_cluster"
	ActionRestore       = "restore"
	ActionRecover       = "recover"
	ActionSetFormat     = "raise_format"
	ActionResetKey      = "reset_key"
	ActionProtectName   = "protect_name"
	ActionUnprotectName = "unprotect_name"
	ActionChangeSecret  = "change_secret"
	ActionNewSigningKey = "new_signing_key"
)

// ByLeader means the leader of that time: the newest ActionLead before the row names
// it.
const ByLeader = "leader"

// Record is one row of a record: who did what.
type Record struct {
	Number uint64 // from 1
	At     int64  // milliseconds since the epoch
	By     string // command.Operator, the name of a moderator, ByLeader, or a server id
	Action string
	What   string // was acted on
	Reason string
	// Private says that What is for operators and moderators alone. By always is.
	Private bool
}

func (r *Record) encode() []byte {
	dst := append(binary.AppendUvarint(nil, uint64(r.At)), bit(r.Private, 1))
	for _, s := range [...]string{r.By, r.Action, r.What, r.Reason} {
		dst = appendBlob(dst, s)
	}
	return dst
}

func decodeRecord(row []byte) (Record, error) {
	r := rowReader{rest: row}
	rec := Record{At: int64(r.uint()), Private: r.byte() != 0, By: r.text(), Action: r.text(), What: r.text(), Reason: r.text()}
	return rec, r.done("record row")
}

// record adds a row to the record of what moderators and operators did, and returns
// its number.
func (tx *txn) record(o *command.Order, action, what string, private bool) uint64 {
	return tx.journal(moderationRecord, Record{By: o.By, Action: action, What: what, Reason: o.Reason, Private: private})
}

// note adds a row to the record of changes in the cluster.
func (tx *txn) note(by, action, what, reason string) {
	tx.journal(changeRecord, Record{By: by, Action: action, What: what, Reason: reason, Private: true})
}

// journal adds a row to a record and returns its number.
func (tx *txn) journal(to journal, r Record) uint64 {
	r.At, r.What = tx.now, r.What[:min(len(r.What), maxRecordedBytes)]
	r.Number = tx.number(to.newest) + 1
	tx.keep(to.newest, binary.AppendUvarint(nil, r.Number))
	tx.keep(seqKey(to.space, r.Number), r.encode())
	if r.Number > to.keeps {
		tx.keep(seqKey(to.space, r.Number-to.keeps), nil)
	}
	return r.Number
}

// noteLead adds that a leader began its term, and before the first one of a new cluster
// that its state came from another.
func (tx *txn) noteLead(server string) {
	if action, what, has := strings.Cut(tx.cluster.founding, " "); has {
		tx.cluster.founding = ""
		tx.set(keyCluster, tx.cluster.encode())
		tx.note(command.Operator, action, what, "")
	}
	tx.note(server, ActionLead, "term "+strconv.FormatUint(tx.head.term, 10), "")
}

// Records returns rows of the record of what moderators and operators did, newest first:
// those with a number below before unless that is 0, and at most limit. next is the
// before of the next page; 0 on the last page.
func (v *View) Records(before uint64, limit int) (records []Record, next uint64, err error) {
	return v.journal(moderationRecord, before, limit)
}

// Changes returns rows of the record of changes in the cluster, as Records does.
func (v *View) Changes(before uint64, limit int) (records []Record, next uint64, err error) {
	return v.journal(changeRecord, before, limit)
}

func (v *View) journal(of journal, before uint64, limit int) (records []Record, next uint64, err error) {
	numbers, err := v.seqsBefore([]byte{of.space}, before, pageLimit(limit)+1)
	if err != nil {
		return nil, 0, err
	}
	numbers, next = cutPage(numbers, pageLimit(limit))
	for _, number := range numbers {
		r, _, err := load(v.snap, seqKey(of.space, number), decodeRecord)
		if err != nil {
			return nil, 0, err
		}
		r.Number = number
		records = append(records, r)
	}
	return records, next, nil
}

// mayOrder reports whether an order comes from the operator or a moderator.
func mayOrder(s facts, o *command.Order) bool {
	_, known := s.get(moderatorKey(o.By))
	return known || o.By == command.Operator
}

func (tx *txn) applySetModerator(c *command.SetModerator) command.Result {
	key, action := moderatorKey(c.Name), ActionSetModerator
	_, known := tx.get(key)
	switch {
	case len(c.Token) > 0 && !known && len(tx.moderators()) >= command.MaxModerators:
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemTooManyModerators}}
	case len(c.Token) > 0:
		tx.keep(key, c.Token)
	case known:
		action = ActionRemoveModerator
		tx.keep(key, nil)
	default:
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownModerator}}
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, action, c.Name, true)}
}

// moderators returns who has a token, in no order.
func (tx *txn) moderators() map[string]bool {
	names := map[string]bool{}
	for _, key := range tx.keysOf(spaceModerator) {
		if _, known := tx.get(key); known {
			names[string(key[1:])] = true
		}
	}
	return names
}

// Moderators returns the names of those who have a token, sorted.
func (v *View) Moderators() (names []string, err error) {
	lower, upper := spaceBounds(spaceModerator)
	err = scanSpace(v.snap, lower, upper, func(key, _ []byte) error {
		names = append(names, string(key[1:]))
		return nil
	})
	return names, err
}

// Moderator returns the moderator whose token has a hash; "": no moderator.
func (v *View) Moderator(token []byte) (name string, err error) {
	lower, upper := spaceBounds(spaceModerator)
	err = scanSpace(v.snap, lower, upper, func(key, hash []byte) error {
		if subtle.ConstantTimeCompare(hash, token) == 1 {
			name = string(key[1:])
		}
		return nil
	})
	return name, err
}
