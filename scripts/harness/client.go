package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// Bounds of one call. A node keeps a write for up to 10 s while leadership changes.
const (
	CallTimeout = 30 * time.Second
	maxAnswer   = 8 << 20
	pageSize    = 100
)

// Client makes calls to nodes and to balancers in front of them.
type Client struct{ *http.Client }

// NewClient returns a client with a timeout for each call.
func NewClient(timeout time.Duration) *Client {
	return &Client{&http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}}
}

// RejectedError is an answer with an unexpected status.
type RejectedError struct {
	Status int
	Code   string // of the Error object, empty if there is none
	Text   string
}

func (r *RejectedError) Error() string { return r.Text }

// Call makes one call and decodes its JSON answer into into, unless that is nil. A
// body of bytes is sent as it is, any other one as JSON. Any status of want will do;
// another one is a *RejectedError.
func (c *Client) Call(ctx context.Context, method, target string, header http.Header, body, into any, want ...int) (http.Header, error) {
	payload, isBytes := body.([]byte)
	if body != nil && !isBytes {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	if body != nil && !isBytes {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, header)
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	if !slices.Contains(want, res.StatusCode) {
		var object struct{ Code string }
		_ = json.Unmarshal(answer, &object) // any other text has no code
		return nil, &RejectedError{res.StatusCode, object.Code, fmt.Sprintf("%s %s: %s, want %d: %.500s", method, target, res.Status, want, answer)}
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			return nil, fmt.Errorf("%s %s: %w in %.500s", method, target, err, answer)
		}
	}
	return res.Header, nil
}

// Entry has the fields of an entry that the checks need.
type Entry struct {
	ID         string
	Channel    string
	Agent      string
	Title      string
	Body       string
	CreatedAt  int64
	Supersedes *string
}

// Published is the answer to a publication.
type Published struct {
	Entry     Entry
	Duplicate bool
	Index     uint64 `json:"-"` // X-Commons-Index
}

// Publish publishes a body (see Call) at a base URL and wants a status.
func (c *Client) Publish(ctx context.Context, base string, header http.Header, body any, want ...int) (answer Published, err error) {
	header, err = c.Call(ctx, http.MethodPost, base+"/api/entries", header, body, &answer, want...)
	if err != nil {
		return answer, err
	}
	if answer.Entry.ID == "" {
		return answer, fmt.Errorf("%s answers a publication without an id", base)
	}
	answer.Index, err = strconv.ParseUint(header.Get("X-Commons-Index"), 10, 64)
	if err != nil {
		return answer, fmt.Errorf("%s: X-Commons-Index: %w", base, err)
	}
	return answer, nil
}

// List returns every entry that a query finds, newest first, page by page.
func (c *Client) List(ctx context.Context, base string, header http.Header, query url.Values) ([]Entry, error) {
	var all []Entry
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(pageSize))
	for {
		var page struct {
			Entries    []Entry
			NextCursor *string
		}
		if _, err := c.Call(ctx, http.MethodGet, base+"/api/entries?"+query.Encode(), header, nil, &page, http.StatusOK); err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// Status is what a node tells operators about its part in the cluster.
type Status struct {
	Node         string
	Role         string
	Leader       string
	Voters       []string
	AppliedIndex uint64
	Format       int // of the node's state
}

// Call is Client.Call for a path of the node.
func (n *Node) Call(method, path string, header http.Header, body, into any, want ...int) (http.Header, error) {
	return n.run.Client.Call(n.run.Ctx, method, n.URL+path, header, body, into, want...)
}

// Publish is Client.Publish on the node.
func (n *Node) Publish(header http.Header, body any, want ...int) (Published, error) {
	return n.run.Client.Publish(n.run.Ctx, n.URL, header, body, want...)
}

// List is Client.List on the node, once it has applied minIndex.
func (n *Node) List(minIndex uint64, query url.Values) ([]Entry, error) {
	header := http.Header{"X-Commons-Min-Index": {strconv.FormatUint(minIndex, 10)}}
	return n.run.Client.List(n.run.Ctx, n.URL, header, query)
}

// Status asks the node on its private port.
func (n *Node) Status() (Status, error) {
	ctx, cancel := context.WithTimeout(n.run.Ctx, statusTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, n.run.Binary, "members", "--json", "--cluster-addr", n.Private, "--secret-file", n.Flags["secret-file"]).Output()
	if err != nil {
		return Status{}, fmt.Errorf("commons members: %w", err)
	}
	return ReadStatus(out)
}

// statusTimeout is how long a node may take to say its status.
const statusTimeout = 5 * time.Second

// ReadStatus reads what `commons members --json` says about the node that it asked.
func ReadStatus(members []byte) (s Status, err error) {
	var report struct {
		AskedNode, Leader string
		Servers           []struct {
			ID, Part string
			Report   *struct {
				Role    string
				Applied uint64
				Format  int
			}
		}
	}
	if err := json.Unmarshal(members, &report); err != nil {
		return s, fmt.Errorf("commons members: %w", err)
	}
	s.Node, s.Leader = report.AskedNode, report.Leader
	for _, server := range report.Servers {
		if server.Part == "voter" {
			s.Voters = append(s.Voters, server.ID)
		}
		if server.ID == s.Node && server.Report != nil {
			s.Role, s.AppliedIndex, s.Format = server.Report.Role, server.Report.Applied, server.Report.Format
		}
	}
	return s, nil
}

// Ready returns what keeps the node from being ready.
func (n *Node) Ready() error {
	_, err := n.Call(http.MethodGet, "/readyz", nil, nil, nil, http.StatusOK)
	return err
}
