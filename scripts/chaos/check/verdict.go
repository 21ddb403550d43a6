package check

import (
	"fmt"
	"strings"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

// MaxShown bounds the findings that are shown of a check, and the calls of each.
const MaxShown = 5

// Finding is a broken promise, with the calls that show it.
type Finding struct {
	Text  string
	Calls []record.Call
}

// Verdict is the result of a check.
type Verdict struct {
	Name     string
	Looked   int // how many things were checked
	Findings []Finding
	Open     int // how many took too long to decide
}

// Add adds a finding.
func (v *Verdict) Add(text string, calls ...record.Call) {
	v.Findings = append(v.Findings, Finding{text, calls})
}

// grouped returns the calls by the result of name, without calls for which that is empty.
func grouped(calls []record.Call, name func(*record.Call) string) map[string][]record.Call {
	groups := map[string][]record.Call{}
	for i := range calls {
		if n := name(&calls[i]); n != "" {
			groups[n] = append(groups[n], calls[i])
		}
	}
	return groups
}

// Summary is a verdict in one line.
func (v *Verdict) Summary() string {
	switch {
	case len(v.Findings) > 0:
		return fmt.Sprintf("FAILED  %s: %d findings among %d; the first: %s", v.Name, len(v.Findings), v.Looked, strings.TrimSpace(v.Findings[0].Text))
	case v.Open > 0:
		return fmt.Sprintf("ok      %s: %d, of them %d took too long to decide", v.Name, v.Looked, v.Open)
	}
	return fmt.Sprintf("ok      %s: %d", v.Name, v.Looked)
}
