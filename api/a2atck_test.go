package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestCardConforms holds CARD-DISC-001, CARD-PROTO-001 and -002, CARD-STRUCT-001 and
// CARD-CACHE-001 and -002.
func TestCardConforms(t *testing.T) {
	s := start(t)
	r := s.Get("/.well-known/agent-card.json")
	var c struct {
		card
		Skills                                []struct{ Tags []string }
		DefaultInputModes, DefaultOutputModes []string
		Capabilities                          json.RawMessage
	}
	if r.Decode(t, &c); c.Name == "" || c.Description == "" || c.Version == "" || len(c.DefaultInputModes) == 0 || len(c.DefaultOutputModes) == 0 ||
		len(c.Capabilities) == 0 || len(c.Skills) == 0 || len(c.Skills[0].Tags) == 0 || r.Header.Get("ETag") == "" {
		t.Errorf("%s %v", r.Body, r.Header)
	}
	for _, i := range c.SupportedInterfaces {
		path, isHere := strings.CutPrefix(i.URL, s.URL)
		if i.ProtocolBinding == "HTTP+JSON" && i.ProtocolVersion == "1.0" {
			path += "/message:send"
		} else if i.ProtocolBinding == "HTTP+JSON" {
			path += "/v1/message:send"
		}
		if r := s.Post(path, "{}"); !isHere || r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed {
			t.Errorf("%+v: %d at %s", i, r.Status, path)
		}
	}
}
