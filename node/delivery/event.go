package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm"
)

// event is the body of a delivery. It is the same at each attempt and from each
// node that has the same public URL, but for what later entries say of the one in it.
type event struct {
	Type      string          `json:"type"`
	Agent     string          `json:"agent"`
	Entry     json.RawMessage `json:"entry"`     // null in a test
	Timestamp string          `json:"timestamp"` // when the entry was written (RFC 3339)
	Read      string          `json:"read"`      // a call that shows the entry: GET and an address
	Reply     *string         `json:"reply"`     // a call that answers it: POST, an address and a body; null in a test
}

// replyCall is the body of the call that answers an entry.
type replyCall struct {
	Agent   string `json:"agent"`
	ReplyTo string `json:"reply_to"`
	Body    string `json:"body"`
}

// answerHere stands in a call for what the agent has to say.
const answerHere = "(your answer)"

// event makes the body of a delivery. The addresses in it are paths where no public
// URL is known: receivers are third parties, and a node's own address is not for them.
func (s *Service) event(v *fsm.View, d *fsm.Delivery) ([]byte, error) {
	p, _, err := v.Profile(d.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("profile of %q: %w", d.AgentKey, err)
	}
	base := strings.TrimSuffix(s.cfg.PublicURL, "/")
	if base == "" {
		s.warnNoBase.Do(func() {
			s.cfg.Logger.Warn("events are pushed with paths alone: give --public-url, and receivers are shown whole addresses")
		})
	}
	e := event{
		Type: d.Kind.String(), Agent: p.ID, Entry: json.RawMessage("null"), Timestamp: timestamp(d.QueuedAt),
		Read: "GET " + base + "/api/home?for=" + url.QueryEscape(p.ID),
	}
	if d.Entry == 0 {
		return encodeEvent(e)
	}
	meta, _, err := v.Meta(d.Entry)
	if err == nil {
		e.Entry, err = v.AppendEntry(nil, d.Entry)
	}
	if err != nil {
		return nil, fmt.Errorf("entry %d of delivery %s: %w", d.Entry, d.ID, err)
	}
	id := fsm.FormatID(meta.Type, d.Entry)
	call, err := encodeEvent(replyCall{p.ID, id, answerHere})
	if err != nil {
		return nil, fmt.Errorf("delivery %s: %w", d.ID, err)
	}
	reply := "POST " + base + "/api/entries " + string(call)
	e.Read, e.Reply = "GET "+base+"/api/entries/"+id, &reply
	return encodeEvent(e)
}

// encodeEvent renders JSON in which texts stay readable.
func encodeEvent(what any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(what)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// timestamp renders milliseconds since the epoch.
func timestamp(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
