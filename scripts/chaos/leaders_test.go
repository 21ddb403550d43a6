package main

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
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
		"leads on, and hangs":     {[]event{{Fault: "hang disk", Nodes: []string{"n1"}, Begin: begin, End: end}}, []lead{first}, 1, 1},
		"another fault meanwhile": {[]event{slow, {Fault: "kill", Nodes: []string{"n3"}, Begin: end - time.Second, End: end + time.Second}}, []lead{first}, 0, 0},
		"another kind of fault":   {[]event{{Fault: "isolate", Nodes: []string{"n1"}, Begin: begin, End: end}}, []lead{first}, 0, 0},
	} {
		r := report{plan: c.plan, leads: c.leads}
		if v := r.slowLeaders(); v.Looked != c.looked || len(v.Findings) != c.findings {
			t.Errorf("%s: looked at %d, found %v; want %d, %d", name, v.Looked, v.Findings, c.looked, c.findings)
		}
	}
}

// TestLiving checks which calls may fail while events are carried out in turn.
func TestLiving(t *testing.T) {
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	plan := inTurn(
		event{Fault: "kill", Nodes: []string{"n1"}, Begin: second(10), End: second(13), Well: second(15)},
		event{Fault: "Look", Target: cluster, Begin: second(15), End: second(16), Well: second(20)},
		event{Fault: "kill and start all", Nodes: []string{"n1", "n2"}, Minority: true, Begin: second(20), End: second(21), Well: second(25)},
	)
	failed := func(node string, begin, end int, kind record.Kind) record.Call {
		return record.Call{Client: "c", Node: node, Kind: kind, Begin: second(begin), End: second(end), Outcome: record.Unknown}
	}
	for name, tc := range map[string]struct {
		calls    []record.Call
		findings int
	}{
		"before":                  {[]record.Call{failed("n1", 1, 9, record.Publish)}, 1},
		"at the target":           {[]record.Call{failed("n1", 9, 11, record.Publish), failed("n1", 12, 14, record.List)}, 0},
		"at another node":         {[]record.Call{failed("n2", 11, 12, record.Publish), failed("n2", 11, 12, record.Poll)}, 2},
		"without a target":        {[]record.Call{failed("n2", 16, 18, record.Publish)}, 1},
		"without a majority":      {[]record.Call{failed("n2", 21, 22, record.Publish)}, 0},
		"strong reads give up":    {[]record.Call{failed("n2", 11, 12, record.Strong)}, 0},
		"one write at a balancer": {[]record.Call{failed(balancerService, 11, 12, record.Publish)}, 0},
		"with a request_id":       {[]record.Call{{RequestID: "id", Node: balancerService, Kind: record.Publish, Begin: second(11), End: second(12), Outcome: record.Unknown}}, 1},
		"two at a balancer":       {[]record.Call{failed(balancerService, 11, 12, record.Publish), failed(balancerService, 12, 13, record.Claim)}, 1},
		"a read at a balancer":    {[]record.Call{failed(balancerService, 11, 12, record.List)}, 1},
		"no target behind it":     {[]record.Call{failed(balancerService, 16, 17, record.Publish)}, 1},
		"one hangs at a balancer": {[]record.Call{failed(balancerService, -15, 11, record.Publish)}, 1},
		"in time":                 {[]record.Call{{Node: "n2", Kind: record.Publish, Outcome: record.Done}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := report{plan: plan, calls: tc.calls}
			check.Equal(t, len(r.living().Findings), tc.findings, "findings")
		})
	}
}
