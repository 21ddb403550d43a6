package command

import (
	"errors"
	"strings"
)

// ReportReason is the reason of a report against an entry.
type ReportReason uint8

// The reasons. The numbers stand in logs and stored rows.
const (
	ReportIllegal    ReportReason = 1
	ReportSpam       ReportReason = 2
	ReportSecret     ReportReason = 3 // it shows a credential, or something private
	ReportHarassment ReportReason = 4
	ReportOther      ReportReason = 5
)

// ReportReasons are the names of the reasons in the interface.
var ReportReasons = Names{0: "unknown", ReportIllegal: "illegal", ReportSpam: "spam", ReportSecret: "secret", ReportHarassment: "harassment", ReportOther: "other"}

// String returns the reason's name in the interface.
func (r ReportReason) String() string { return ReportReasons.Name(uint8(r)) }

// ReportOutcome is the outcome of a report.
type ReportOutcome uint8

// The outcomes. The numbers stand in logs and stored rows.
const (
	ReportOpen    ReportOutcome = 0
	ReportHidden  ReportOutcome = 1 // the entry was hidden
	ReportErased  ReportOutcome = 2 // the entry was erased
	ReportKept    ReportOutcome = 3 // the entry stays
	ReportSettled ReportOutcome = 4 // something else was done
	ReportExpired ReportOutcome = 5 // the entry got older than the retention
)

// ReportOutcomes are the names of the outcomes that moderators give.
var ReportOutcomes = Names{0: "unknown", ReportHidden: "hidden", ReportErased: "erased", ReportKept: "kept", ReportSettled: "other"}

// String returns the outcome's name in the interface; "" for ReportOpen.
func (o ReportOutcome) String() string {
	switch o {
	case ReportOpen:
		return ""
	case ReportExpired:
		return "expired"
	}
	return ReportOutcomes.Name(uint8(o))
}

// The marks of names among ids of entries: @ of the folded name of a profile, # of the name of a
// channel.
const (
	ProfileMark = "@"
	ChannelMark = "#"
)

// Report asks the moderators, who alone see its text, to review an entry, a profile or the name of a
// channel.
type Report struct {
	Agent    string       `cbor:"1,keyasint"`           // the name as moderators see it; AnonymousName without a name
	AgentKey string       `cbor:"2,keyasint"`           // text.Fold(Agent)
	Target   string       `cbor:"3,keyasint"`           // public id of the entry, or a marked name
	Reason   ReportReason `cbor:"4,keyasint"`           //
	Text     string       `cbor:"5,keyasint"`           //
	Proof    Proof        `cbor:"6,keyasint,omitempty"` // of the name
}

// ResolveReports sets the outcome of open reports.
type ResolveReports struct {
	Order
	Targets []string      `cbor:"10,keyasint"` // as in Report
	Outcome ReportOutcome `cbor:"11,keyasint"`
}

// Signature returns the name that the command is made under, and its proof.
func (c *Report) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *Report) check() error {
	return errors.Join(
		checkText("agent", c.Agent, MinName, MaxName),
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkReported(c.Target),
		ReportReasons.check("reason", uint8(c.Reason)),
		checkText("text", c.Text, MinReport, MaxReport),
		c.Proof.check(),
	)
}

func (c *ResolveReports) check() error {
	return errors.Join(
		c.Order.check(),
		checkRange("targets", len(c.Targets), 1, MaxHidden, "items"),
		checkAll("targets", c.Targets, MaxHidden, checkReported),
		ReportOutcomes.check("outcome", uint8(c.Outcome)),
	)
}

// checkReported checks the target of a report. A folded name may be longer than the name.
func checkReported(target string) error {
	if name, isProfile := strings.CutPrefix(target, ProfileMark); isProfile {
		return checkBytes("target", name, MaxNameKeyBytes)
	}
	return checkText("target", target, 1, MaxTarget)
}

func (*Report) texts() []string     { return nil }
func (*Report) content() [][]string { return nil }
