package command

import "testing"

// SamplePublish is for tests with package fsmtest, which imports this one.
var SamplePublish = samplePublish

// CheckRoundTrip encodes and decodes commands.
func CheckRoundTrip(t *testing.T, bodies ...Payload) {
	t.Helper()
	g := Group{Boot: BootID{1}}
	for i, body := range bodies {
		g.Commands = append(g.Commands, Command{Seq: uint64(i), Payload: body})
	}
	checkBatch(t, Batch{Stamp: 1, Groups: []Group{g}})
}
