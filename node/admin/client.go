package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"

	"github.com/commons-cluster/commons/cluster"
)

// Client asks one node.
type Client struct {
	name string // of the node, for errors
	host string // of URLs
	http *http.Client
	// byNode is true for a client of another node. Its errors are about the node that was
	// asked, not about the flags of a command.
	byNode bool
}

// NewClient returns a client for the private port at addr. secretFile has the cluster's
// secret; it is empty for nodes on this machine without a secret.
func NewClient(network cluster.Network, secretFile, addr string) (*Client, error) {
	secrets, err := cluster.LoadSecrets(secretFile)
	if err != nil {
		return nil, err
	}
	client, err := cluster.OperatorClient(network, secrets, addr)
	if err != nil {
		return nil, err
	}
	return &Client{name: "the node at " + addr, host: "node", http: client}, nil
}

// NewNodeClient returns a client of a node for another one's private port. The node closes
// the HTTP client.
func NewNodeClient(client *http.Client, serverID string) *Client {
	return &Client{name: serverID, host: serverID, http: client, byNode: true}
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call sends a request, which may be nil, and reads the answer. Its errors are of the type
// *CallError.
func Call[Answer any](ctx context.Context, c *Client, path string, request any) (Answer, error) {
	var answer Answer
	body, err := c.Stream(ctx, path, request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = body.Close() }() // read to its end
	if err := cluster.ReadAnswer(body, &answer); err != nil {
		return answer, &CallError{Message: fmt.Sprintf("the answer of %s is cut off or not understood: %v", c.name, err)}
	}
	return answer, nil
}

// Stream is Call for an answer that is read as a stream. The caller closes it.
func (c *Client) Stream(ctx context.Context, path string, request any) (io.ReadCloser, error) {
	if request == nil {
		request = struct{}{}
	}
	res, err := cluster.Send(ctx, c.http, c.host, path, request)
	if err != nil {
		return nil, c.explain(err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer func() { _ = res.Body.Close() }() // an answer of a few lines
	return nil, c.rejected(res)
}

// ofExample is the sentence about the example in a public error, which a command does not
// show (wire.ExampleWorks; this package must not reach it).
const ofExample = " The example would have worked."

// PublicError returns the text of an Error object of the public interface in one line, and
// "" for anything else.
func PublicError(answer []byte) string {
	var failure struct {
		Error  string
		Issues []struct{ Field, Message string }
	}
	if json.Unmarshal(answer, &failure) != nil || failure.Error == "" {
		return ""
	}
	message, issues := strings.TrimSuffix(failure.Error, ofExample), make([]string, len(failure.Issues))
	for n, i := range failure.Issues {
		issues[n] = i.Field + " " + i.Message
	}
	if len(issues) > 0 {
		message = strings.TrimSuffix(message, ".") + ": " + strings.Join(issues, "; ")
	}
	return message
}

// CallError is the failure of a call, with a message for an operator.
type CallError struct {
	Status  int // of the answer, 0 without one
	Message string
}

func (e *CallError) Error() string { return e.Message }

func (c *Client) rejected(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, MaxRequestBytes))
	var failure Failure
	switch {
	case err == nil && json.Unmarshal(data, &failure) == nil && failure.Error != "":
		return &CallError{Status: res.StatusCode, Message: failure.Error}
	case res.StatusCode == http.StatusNotFound:
		return &CallError{res.StatusCode, c.name + " does not know this command: it runs an older version"}
	}
	return &CallError{res.StatusCode, fmt.Sprintf("%s answers %s", c.name, res.Status)}
}

func (c *Client) explain(err error) error {
	absent, silent := "name the private port of a running node with --cluster-addr", "ask another one with --cluster-addr"
	asker, remedy := "this command", "give the cluster's with --secret-file"
	if c.byNode {
		absent, silent = "see whether its node runs", "see whether its node runs"
		asker, remedy = "the node that asked it", "look at their secret files"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return &CallError{Message: c.name + " is not there; " + absent}
	case errors.Is(err, context.DeadlineExceeded):
		return &CallError{Message: c.name + " does not answer in time; " + silent}
	case strings.Contains(err.Error(), "cluster secret"), strings.Contains(err.Error(), "tls:"):
		return &CallError{Message: fmt.Sprintf("%s and %s do not have the same secret; %s (%v)", c.name, asker, remedy, rootOf(err))}
	}
	return &CallError{Message: fmt.Sprintf("%s cannot be reached: %v", c.name, rootOf(err))}
}

// rootOf strips the URL, which is only a placeholder, from a client's error.
func rootOf(err error) error {
	if u := errors.Unwrap(err); u != nil {
		return u
	}
	return err
}
