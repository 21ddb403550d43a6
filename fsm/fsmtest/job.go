package fsmtest

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// Hour in milliseconds.
const Hour = int64(60 * 60 * 1000)

// Author is an agent without a key.
func Author(agent string) command.Author {
	return command.Author{Agent: agent, AgentKey: strings.ToLower(agent)}
}

// PostJob is a job of an agent.
func PostJob(agent string) *command.PostJob {
	return &command.PostJob{Author: Author(agent), Title: "Count the birds", Body: "All of those in the park."}
}

// OnJob is an action of an agent on a job.
func OnJob(agent string, job uint64) command.JobAction {
	return command.JobAction{Author: Author(agent), Job: state.FormatID(state.TypeJob, job)}
}

// Claim claims a job.
func Claim(agent string, job uint64) *command.ClaimJob {
	return &command.ClaimJob{JobAction: OnJob(agent, job), TTL: 24 * Hour}
}

// Release gives a job back.
func Release(agent string, job uint64) *command.ReleaseJob {
	return &command.ReleaseJob{JobAction: OnJob(agent, job)}
}

// CloseJob closes a job.
func CloseJob(agent string, job uint64) *command.CloseJob {
	return &command.CloseJob{JobAction: OnJob(agent, job)}
}

// CheckClaimCounts compares the rows of SpaceClaims with those of the jobs.
func CheckClaimCounts(t Tester, m Viewer) {
	t.Helper()
	v := m.View()
	defer v.Release()
	want, got := map[string]uint64{}, map[string]uint64{}
	err := state.ScanAll(v.Reader(), state.SpaceJob, func(_, row []byte) error {
		j, err := state.Decode[state.JobRow](row)
		for key := range slices.Chunk([]byte(j.Counted), state.ClaimsKeyBytes) {
			want[string(key)]++
		}
		return err
	})
	err = errors.Join(err, state.ScanAll(v.Reader(), state.SpaceClaims, func(key, row []byte) error {
		n, err := state.DecodeNumber(row)
		got[string(key[1:])] = n
		return err
	}))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("counts of claims (-want +got):\n%s%v", diff, err)
	}
}

// Help is a request for human help.
func Help(agent string) *command.AskHuman {
	return &command.AskHuman{
		Author: Author(agent), Goal: "Sign\nthe form", Action: "Print it and sign it.",
		Context: "It is for <us>.", Bounds: "Before noon.", Tags: []string{"paper", "human-help"},
	}
}
