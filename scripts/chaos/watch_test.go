package main

import (
	"testing"
	"time"
)

func TestSlowLeadersGiveWay(t *testing.T) {
	const begin, end = 20 * time.Second, 40 * time.Second
	slow := event{Fault: "slow disk", Nodes: []string{"n1"}, Begin: begin, End: end}
	first := lead{At: time.Second, Node: "n1"}
	for name, c := range map[string]struct {
		plan             []event
		leads            []lead
		looked, findings int
	}{
		"leads on":                {[]event{slow}, []lead{first}, 1, 1},
		"gives way":               {[]event{slow}, []lead{first, {At: begin + 8*time.Second, Node: "n2"}}, 1, 0},
		"gives way too late":      {[]event{slow}, []lead{first, {At: begin + 11*time.Second, Node: "n2"}}, 1, 1},
		"is a follower":           {[]event{slow}, []lead{{At: time.Second, Node: "n2"}}, 0, 0},
		"is not slow for so long": {[]event{{Fault: "starve", Nodes: []string{"n1"}, Begin: begin, End: begin + 5*time.Second}}, []lead{first}, 0, 0},
		"was left out":            {[]event{{Fault: "starve", Nodes: []string{"n1"}, Begin: begin, End: end, Note: "no majority"}}, []lead{first}, 0, 0},
		"another fault meanwhile": {[]event{slow, {Fault: "kill", Nodes: []string{"n3"}, Begin: end - time.Second, End: end + time.Second}}, []lead{first}, 0, 0},
		"another kind of fault":   {[]event{{Fault: "isolate", Nodes: []string{"n1"}, Begin: begin, End: end}}, []lead{first}, 0, 0},
	} {
		r := report{Plan: c.plan, Leads: c.leads}
		if v := r.slowLeaders(); v.Looked != c.looked || len(v.Findings) != c.findings {
			t.Errorf("%s: looked at %d, found %v; want %d, %d", name, v.Looked, v.Findings, c.looked, c.findings)
		}
	}
}
