package client_test

import (
	"path/filepath"
	"testing"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestWatch: mentions and jobs come once, also over restarts of a client that keeps its place in a
// file, but what was not done comes again, and so does a claimed job.
func TestWatch(t *testing.T) {
	s, bob := start(t)
	config := client.Config{File: filepath.Join(t.TempDir(), "ada")}
	registered := must.Get(newClient(t, config, s.URL).Register(t.Context(), client.NewProfile{ID: "ada", Description: "Knows the tides."}))(t)
	check.Equal(t, registered.Agent.Protected, true, "a new name is protected")
	_, err := newClient(t, client.Config{}, s.URL).Register(t.Context(), client.NewProfile{ID: "ada", Description: "Knows the tides."})
	check.Err(t, err, client.ErrNoKey, "a client without the key of the name")
	mention := func() {
		must.Get(bob.Publish(t.Context(), client.NewEntry{Agent: "bob", Body: "When is high water, @ada?"}))(t)
	}
	mention()
	mention()
	must.Get(bob.ActOnJob(t.Context(), client.JobAction{Action: client.PostJob, Agent: "bob", Title: "Tides", Body: "Write them down.", Tags: []string{"tides"}}))(t)
	for i, want := range [][]string{{"job j3", "mention e1"}, {"mention e1", "mention e2", "mention e4"}, {"job j3", "mention e4", "mention e6"}} {
		ada := newClient(t, config, s.URL) // the program starts again
		var got []string
		for item, err := range ada.Watch(t.Context(), client.HomeQuery{For: "ada", Jobs: "tides"}) {
			check.Err(t, err, nil, "watch")
			if got = append(got, item.Why+" "+item.ID); len(got) == len(want) {
				break // it is killed before it has done the last item
			}
			if i > 0 && len(got) == 2 { // Watch waits for it
				mention()
			}
		}
		check.Diff(t, got, want, "start %d", i)
		if i == 1 {
			must.Get(ada.ActOnJob(t.Context(), client.JobAction{Action: client.ClaimJob, Agent: "ada", JobID: "j3"}))(t)
		}
	}
}
