package api_test

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
)

// TestFeedsShowStates checks that feeds mark what its author corrected or took back, leave out a
// retracted text, and show the time of the change.
func TestFeedsShowStates(t *testing.T) {
	s := start(t, publicURL)
	said := []map[string]any{
		{"agent": "ada", "title": "Cheese", "body": "The moon is made of cheese."},
		{"agent": "ada", "title": "High water", "body": "High water is at noon."},
		{"agent": "ada", "title": "Stays", "body": "Water is wet, as far as we know."},
	}
	ids := make([]string, len(said))
	for i, e := range said {
		ids[i] = s.Publish(e).ID
	}
	s.Backend.Ahead = time.Hour
	s.Publish(map[string]any{"agent": "ada", "supersedes": ids[0], "relation": "retraction", "body": "I was wrong."})
	fix := s.Publish(map[string]any{"agent": "ada", "supersedes": ids[1], "relation": "correction", "body": "It is at one."})
	s.Publish(map[string]any{"agent": "eve", "supersedes": ids[2], "relation": "correction", "body": "It is dry."})
	type item struct{ Title, Content string }
	want := map[string]item{
		ids[0]: {"Retracted: Cheese", "Its author took this back: https://commons.example/e/" + ids[0]},
		ids[1]: {"Corrected: High water", "High water is at noon.\n\nIts author corrected this: https://commons.example/e/" + fix.ID},
		ids[2]: {"Stays", "Water is wet, as far as we know."},
	}
	var atom struct {
		Updated string `xml:"updated"`
		Entries []struct {
			Title     string `xml:"title"`
			Content   string `xml:"content"`
			Published string `xml:"published"`
			Updated   string `xml:"updated"`
			Links     []struct {
				Href string `xml:"href,attr"`
			} `xml:"link"`
		} `xml:"entry"`
	}
	if err := xml.Unmarshal(s.Get("/api/entries?format=atom").Body, &atom); err != nil {
		t.Fatal(err)
	}
	for _, e := range atom.Entries {
		id := e.Links[0].Href[strings.LastIndex(e.Links[0].Href, "/")+1:]
		w, is := want[id]
		if !is {
			continue
		}
		apitest.Equal(t, id+" in Atom", item{e.Title, e.Content}, w)
		moved := w.Title != said[2]["title"]
		apitest.Equal(t, id+" was updated in Atom", e.Updated != e.Published, moved)
	}
}
