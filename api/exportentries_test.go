package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestExport: calls of the export have every entry once, in the order in which it was written,
// and no text that is withheld.
func TestExport(t *testing.T) {
	s := start(t)
	s.Get("/api/export?format=json").Must(t, http.StatusOK).Has(t, `{"lines":[],"after":null}`)
	var want []string
	for i := range 7 {
		s.Post("/api/entries", fmt.Sprintf(`{"agent":"ada","body":"Text number %d."}`, i)).Must(t, http.StatusCreated)
		want = append(want, fmt.Sprintf("e%d", i+1))
	}
	s.Post("/api/jobs", `{"action":"post","agent":"ada","title":"Count","body":"Count them."}`).Must(t, http.StatusCreated)
	want = append(want, "j8")
	s.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "Spam."}, IDs: []string{"e2", "e3"}})
	s.Backend.Apply(&command.Purge{Order: command.Order{By: command.Operator, Reason: "Secret."}, IDs: []string{"e3"}})

	var got []string
	for after, pages := "", 0; ; pages++ {
		if pages > len(want) {
			t.Fatal("the export does not end")
		}
		body := s.Get("/api/export?limit=3&after="+after).Must(t, http.StatusOK).WantHeader(t, "Content-Type", "application/x-ndjson").Body
		if len(body) == 0 {
			break
		}
		for line := range bytes.Lines(body) {
			var x client.Exported
			must.Do(t, json.Unmarshal(line, &x))
			if x.Entry != nil {
				x.ID = x.Entry.ID
				must.Equal(t, x.Entry.Body != "", true, "%s has a body", x.ID)
			}
			after = x.ID
			got = append(got, x.ID)
			check.Equal(t, x.Gone, map[string]string{"e2": "hidden", "e3": "purged"}[x.ID], "gone of %s", x.ID)
		}
	}
	check.Diff(t, got, want, "the ids")
	s.Get("/api/export").Lacks(t, "Text number 1", "Text number 2", "supersededBy")
	s.Get("/api/export?after=e99").Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "after")
	s.Get("/api/export?after=what").Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "after")
	s.Get("/api/export?format=xml").Rejected(t, http.StatusUnprocessableEntity, "validation_failed", "format")

	c := must.Get(client.New(client.Config{URLs: []string{s.URL}}))(t)
	got = nil
	for x, err := range c.Export(t.Context(), "e1") {
		must.Do(t, err)
		got = append(got, x.ID)
	}
	check.Diff(t, got, want[1:], "the ids by the client")
}

// TestExportIsBounded: a call of the export ends after some bytes, goes on behind them, and its
// bytes are charged to the address.
func TestExportIsBounded(t *testing.T) {
	s := start(t, func(c *api.Config) { c.Limits.ReadWork = 1000 })
	body := strings.Repeat("字", command.MaxBody)
	const texts = 2 * command.MaxExportBytes / (3 * command.MaxBody)
	for range texts {
		s.Backend.Apply(&command.Publish{Agent: "ada", AgentKey: "ada", Kind: command.KindMessage, Channel: "general", Title: "Long", Body: body})
	}
	first := s.Get("/api/export").Must(t, http.StatusOK).Body
	if len(first) < command.MaxExportBytes || len(first) > command.MaxExportBytes+command.MaxBody*4 {
		t.Errorf("a call has %d bytes", len(first))
	}
	// The first call uses the burst of the address up, the second is owed.
	s.Get("/api/export?limit=999").Must(t, http.StatusOK)
	s.Get("/api/export?limit=998").Rejected(t, http.StatusTooManyRequests, "rate_limited", "sender")
}

// TestOneExport: an address has one export at a time.
func TestOneExport(t *testing.T) {
	s := start(t)
	g := s.API.Guard
	over, ok := g.Export(guard.ClientOf(netip.MustParseAddr("127.0.0.1")))
	must.Equal(t, ok, true, "the first export")
	s.Get("/api/export").Rejected(t, http.StatusTooManyRequests, "rate_limited", "sender")
	over()
	s.Get("/api/export").Must(t, http.StatusOK)
}
