package adminserver

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
)

// tripper answers requests by a function.
type tripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPassedOnCallEnds holds that a call that is passed on to another node has an end
// that the caller hears of, whether or not that node answers.
func TestPassedOnCallEnds(t *testing.T) {
	a := New(Config{Logger: slog.New(slog.DiscardHandler), ServerID: "n1-x"})
	deaf := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
		end, ok := r.Context().Deadline()
		if left := time.Until(end); !ok || left > passOnTimeout {
			t.Errorf("the call may take %v", left)
		}
		return nil, context.DeadlineExceeded
	})}
	w := httptest.NewRecorder()
	a.passOn(deaf, w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin", http.NoBody), "n2-x")
	check.Equal(t, w.Code, http.StatusBadGateway, "status")
	check.Contains(t, w.Body.String(), "n2-x does not answer", "body")
}

// TestRemovedServerKnowsThatItIsGone holds that a server which leaves takes the answer of
// a leader that has removed it already for one: that leader's private port rejects it.
func TestRemovedServerKnowsThatItIsGone(t *testing.T) {
	removed := cluster.Members(func() string { return "c1" }, func(string) bool { return false }, http.NotFoundHandler())
	for name, h := range map[string]http.Handler{
		"by the gate": removed,
		"by the call": http.NotFoundHandler(),
	} {
		a := New(Config{Client: &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Result(), nil
		})}})
		_, err := call[admin.ServerRef](t.Context(), a, "n2-x", admin.PathRemove, admin.Removal{ID: "n1-x", Leaving: true})
		if !noMember(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if noMember(context.DeadlineExceeded) || noMember(&admin.CallError{Status: http.StatusServiceUnavailable}) {
		t.Error("no answer, or none yet, passes for a removal")
	}
}

// TestVerifiesBackups: one healthy node restores backups as a check, a follower if there is one.
func TestVerifiesBackups(t *testing.T) {
	well, slow, behind := &admin.NodeReport{Ready: true}, &admin.NodeReport{Ready: true}, &admin.NodeReport{}
	slow.Slow = true
	for name, tt := range map[string]struct {
		reports [3]*admin.NodeReport // of n1, n2, which leads, and n3
		want    string
	}{
		"all are well":        {[3]*admin.NodeReport{well, well, well}, "n1"},
		"one does not answer": {[3]*admin.NodeReport{nil, well, well}, "n3"},
		"one is slow":         {[3]*admin.NodeReport{slow, well, well}, "n3"},
		"one is behind":       {[3]*admin.NodeReport{behind, well, well}, "n3"},
		"no follower is well": {[3]*admin.NodeReport{behind, well, slow}, "n2"},
		"the leader is slow":  {[3]*admin.NodeReport{well, slow, well}, "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			report := admin.ClusterReport{Leader: "n2"}
			for i, id := range []string{"n1", "n2", "n3"} {
				report.Servers = append(report.Servers, admin.Server{ID: id, Part: admin.Voter, Report: tt.reports[i]})
			}
			for _, s := range report.Servers {
				report.AskedNode = s.ID
				check.Equal(t, VerifiesBackups(report), s.ID == tt.want, "%s does", s.ID)
			}
		})
	}
}

// TestErasesNext: a server waits for the living ones before it, the leader for all.
func TestErasesNext(t *testing.T) {
	for name, tt := range map[string]struct {
		asked  string
		done   map[string]uint64 // purges that servers have erased; a missing one does not answer
		change func(servers []admin.Server)
		want   bool
	}{
		"the first":                   {asked: "n1", done: map[string]uint64{"n1": 6}, want: true},
		"the second":                  {asked: "n3", done: map[string]uint64{"n1": 6, "n2": 7, "n3": 6}},
		"after the first":             {asked: "n3", done: map[string]uint64{"n1": 7, "n3": 6}, want: true},
		"the leader":                  {asked: "n2", done: map[string]uint64{"n1": 7, "n2": 6, "n3": 6}},
		"the leader, after all":       {asked: "n2", done: map[string]uint64{"n1": 8, "n2": 6, "n3": 7}, want: true},
		"one that does not answer":    {asked: "n3", done: map[string]uint64{"n2": 7}},
		"one that is dead":            {asked: "n3", change: func(s []admin.Server) { s[0].Alive = false }, want: true},
		"one that does not take part": {asked: "n3", change: func(s []admin.Server) { s[0].Part = admin.Outside }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			report := admin.ClusterReport{AskedNode: tt.asked, Leader: "n2"}
			for _, id := range []string{"n1", "n2", "n3"} {
				s := admin.Server{ID: id, Part: admin.Voter, Alive: true}
				if done, answers := tt.done[id]; answers {
					s.Report = &admin.NodeReport{Purges: admin.Purges{Known: 9, State: done, Log: done}}
				}
				report.Servers = append(report.Servers, s)
			}
			if tt.change != nil {
				tt.change(report.Servers)
			}
			check.Equal(t, ErasesNext(report, 7), tt.want, "its turn")
		})
	}
}
