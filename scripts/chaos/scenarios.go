package main

import (
	"slices"
	"time"
)

// scenarios are plans with a name. Times are since the first fault.
var scenarios = map[string][]event{
	"leader killed":     repeated(3, 9*time.Second, event{For: 3 * time.Second, Fault: "kill", Target: leader}),
	"everything killed": {{For: 2 * time.Second, Fault: "kill", Target: all, Hard: true}},
	"leader paused":     {{For: 30 * time.Second, Fault: "pause", Target: leader}},
	"leaders paused":    repeated(5, 8*time.Second, event{For: 4 * time.Second, Fault: "pause", Target: leader}),
	"followers paused":  {{For: 13 * time.Second, Fault: "pause", Target: follower, Hard: true}, {At: time.Millisecond, For: 13 * time.Second, Fault: "pause", Target: follower, Hard: true}},
	"rolling restart":   repeated(3, 8*time.Second, event{For: time.Second, Fault: "terminate", Target: leader}),
	"leader starved":    {{For: 20 * time.Second, Fault: "starve", Target: leader}},
	"follower starved":  {{For: 20 * time.Second, Fault: "starve", Target: follower}},

	"leader with full disk":       {{For: 8 * time.Second, Fault: "fill", Target: leader}},
	"follower with full disk":     {{For: 8 * time.Second, Fault: "fill", Target: follower}},
	"leader's disk hangs":         {{For: 15 * time.Second, Fault: "hang disk", Target: leader}},
	"leader's disk is slow":       {{For: 20 * time.Second, Fault: "slow disk", Target: leader}},
	"follower's disk is slow":     {{For: 20 * time.Second, Fault: "slow disk", Target: follower}},
	"leader's disk fails":         {{For: 8 * time.Second, Fault: "fail disk", Target: leader}},
	"power of everything is lost": repeated(2, 12*time.Second, event{For: time.Second, Fault: "lose power", Target: all, Hard: true}),

	"leader isolated": {{For: 8 * time.Second, Fault: "isolate", Target: leader}},
	"leader deaf":     {{For: 8 * time.Second, Fault: "deaf", Target: leader}},
	"leader mute":     {{For: 8 * time.Second, Fault: "mute", Target: leader}},
	"two voters cut":  {{For: 8 * time.Second, Fault: "cut pair", Target: leader}},
	"bad network":     {{For: 15 * time.Second, Fault: "delay", Target: follower}, {At: 18 * time.Second, For: 30 * time.Second, Fault: "lose", Target: leader}},

	"two of five killed": {{For: 12 * time.Second, Fault: "kill", Target: leader}, {At: 4 * time.Second, For: 8 * time.Second, Fault: "kill", Target: leader}},
	"three of five killed": {
		{For: 22 * time.Second, Fault: "kill", Target: follower},
		{At: 2 * time.Second, For: 20 * time.Second, Fault: "kill", Target: leader},
		{At: 10 * time.Second, For: 8 * time.Second, Fault: "kill", Target: leader, Hard: true},
	},

	// Whoever calls another node than the target of these events sees no error.
	"faults in turn": inTurn(slices.Concat(
		repeated(2, 0, event{For: 3 * time.Second, Fault: "kill", Target: leader}),
		restarts,
		[]event{
			{For: 5 * time.Second, Fault: "pause", Target: leader},
			{Fault: "kill and start all", Target: all, Hard: true},
			{Fault: "replace", Target: follower},
			{For: time.Second, Fault: "terminate", Target: all, Hard: true},
		})...),
	"what operators do": inTurn(
		event{Fault: "rotate the secret", Target: cluster},
		event{Fault: "back up and restore", Target: cluster},
		event{Fault: "leave and join", Target: follower},
	),
	belowLimits: inTurn(slices.Concat(
		repeated(5, 0, event{For: 2 * time.Second, Fault: "lead", Target: follower}),
		restarts,
		[]event{{Fault: "exceed the limits", Target: cluster}})...),
	strangersScenario: strangersPlan(),
	spamScenario:      {{Fault: "wave of spam", Target: cluster}},
	laterVersion:      inTurn(upgrades...),
	laterVersion + andFormat: inTurn(slices.Concat(upgrades[:5], []event{{Fault: "reject the later format", Target: cluster}}, upgrades[5:], []event{
		{Fault: "use the later format", Target: cluster},
		{Fault: "join with the former version", Target: cluster},
	})...),
	behindBalancer:     balancedPlan(25 * time.Second),
	behindBalancerLong: balancedPlan(time.Minute, event{For: time.Second, Fault: "Restart or upgrade", Target: cluster}),
}

// belowLimits is the scenario whose lanes only write, almost as much as the limits allow.
const belowLimits = "writers just below their limits"

// laterVersion is the scenario in which each node gets the binary of a later version. The first node
// returns to the former binary once, before the format is raised. With andFormat, the later version
// is the made-up one with another format.
const (
	laterVersion = "upgraded to a later version"
	andFormat    = " and format"
)

// upgrades are the events of laterVersion.
var upgrades = []event{
	{Fault: "restore with the later version", Target: cluster},
	{For: time.Second, Fault: "upgrade", Target: "n1"},
	{For: time.Second, Fault: "roll back", Target: "n1"},
	{For: time.Second, Fault: "upgrade", Target: "n1"},
	{For: time.Second, Fault: "upgrade", Target: "n2"},
	{For: time.Second, Fault: "upgrade", Target: "n3"},
	{For: time.Second, Fault: "upgrade", Target: reader},
}

// restarts is a restart of the leader, and then of each voter.
var restarts = []event{
	{For: time.Second, Fault: "terminate", Target: leader},
	{For: time.Second, Fault: "terminate", Target: "n1"},
	{For: time.Second, Fault: "terminate", Target: "n2"},
	{For: time.Second, Fault: "terminate", Target: "n3"},
}
