package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Bounds of one call. The balancer waits 75 s for a node where a call waits.
const (
	callTimeout = 80 * time.Second
	maxAnswer   = 8 << 20
	nodePort    = "8080"
)

var client = &http.Client{
	Timeout:   callTimeout,
	Transport: &http.Transport{MaxIdleConnsPerHost: 2 * writers, DisableCompression: true},
}

// fresh makes every call on a connection of its own, so that none is repeated
// behind our back.
var fresh = &http.Client{Timeout: callTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// callOnce makes one GET, which must succeed.
func callOnce(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return perform(fresh, req, nil, http.StatusOK)
}

// refusal is an answer with another status than was wanted.
type refusal struct {
	status int
	code   string // of the Error object
	text   string
}

func (r *refusal) Error() string { return r.text }

// call makes one call and decodes its JSON answer into into, unless that is nil.
// Any status of want will do; another one is a *refusal.
func call(ctx context.Context, method, url string, body, into any, want ...int) error {
	var payload io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return perform(client, req, into, want...)
}

func perform(client *http.Client, req *http.Request, into any, want ...int) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", req.Method, req.URL, err)
	}
	for _, status := range want {
		if res.StatusCode == status {
			if into == nil {
				return nil
			}
			return json.Unmarshal(answer, into)
		}
	}
	var object struct{ Code string }
	_ = json.Unmarshal(answer, &object) // any other text has no code
	return &refusal{res.StatusCode, object.Code, fmt.Sprintf("%s %s: %s: %.400s", req.Method, req.URL, res.Status, answer)}
}

// status is what GET /status says.
type status struct {
	Node   string
	Role   string
	Leader string
	Voters []string
}

// nodeURL is the address of a node itself, past the balancer.
func (p *project) nodeURL(service string) (string, error) {
	address, err := p.address(service)
	return "http://" + address + ":" + nodePort, err
}

func (p *project) status(service string) (status, error) {
	var s status
	url, err := p.nodeURL(service)
	if err != nil {
		return s, err
	}
	err = call(p.ctx, http.MethodGet, url+"/status", nil, &s, http.StatusOK)
	return s, err
}

// waitReady waits until the nodes are ready and agree on so many voters, one for
// each of their names.
func (p *project) waitReady(timeout time.Duration, nodes ...string) error {
	return p.eventually(timeout, func() error {
		for _, node := range nodes {
			url, err := p.nodeURL(node)
			if err != nil {
				return err
			}
			if err := call(p.ctx, http.MethodGet, url+"/readyz", nil, nil, http.StatusOK); err != nil {
				return err
			}
			s, err := p.status(node)
			if err != nil {
				return err
			}
			if err := oneVoterEach(s.Voters, nodes); err != nil {
				return fmt.Errorf("%s says: %w", node, err)
			}
			if !slices.Contains(s.Voters, s.Node) {
				return fmt.Errorf("%s has no vote yet: %v", s.Node, s.Voters)
			}
		}
		return nil
	})
}

// oneVoterEach wants one voter for each name, and no other.
func oneVoterEach(voters, names []string) error {
	if len(voters) != len(names) {
		return fmt.Errorf("voters %v, want one of each of %v", voters, names)
	}
	for _, name := range names {
		if !slices.ContainsFunc(voters, func(id string) bool { return nameOf(id) == name }) {
			return fmt.Errorf("voters %v, want one of %s", voters, name)
		}
	}
	return nil
}

// nameOf is the node's name in a server id.
func nameOf(serverID string) string {
	if i := strings.LastIndexByte(serverID, '-'); i >= 0 {
		return serverID[:i]
	}
	return serverID
}

// leader returns the service that leads, and the others of the list.
func (p *project) leader(nodes ...string) (leader string, others []string, err error) {
	err = p.eventually(readyTimeout, func() error {
		s, err := p.status(nodes[0])
		if err != nil {
			return err
		}
		leader, others = nameOf(s.Leader), nil
		for _, node := range nodes {
			if node != leader {
				others = append(others, node)
			}
		}
		if len(others) != len(nodes)-1 {
			return fmt.Errorf("%s says that %q leads", nodes[0], s.Leader)
		}
		return nil
	})
	return leader, others, err
}
