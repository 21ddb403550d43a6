package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/loop"
)

const maxAnswer = 16 << 10

type healthCommand struct {
	URL      string        `name:"url" env:"COMMONS_HEALTH_URL" placeholder:"URL" help:"Base URL of the node (default: made from --http-addr)."`
	HTTPAddr string        `name:"http-addr" env:"COMMONS_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the node's public HTTP service listens."`
	Timeout  time.Duration `name:"timeout" env:"COMMONS_HEALTH_TIMEOUT" default:"5s" placeholder:"DURATION" help:"How long to wait for each answer."`
	Wait     time.Duration `name:"wait" default:"0s" placeholder:"DURATION" help:"Ask again for this long, until the node is ready."`
	Voter    bool          `name:"voter" help:"Fail also while the node has no vote and does not count for a majority; its private port is asked for that."`

	ClusterAddr string `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of the node, for --voter."`
	SecretFile  string `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret, for --voter; not needed for a node on this machine that has none."`

	JSON bool `name:"json" help:"Print JSON."`
}

// ErrCannotAsk is the error of a health check that could not ask the private port. The
// port or the secret is probably wrong, so the exit code differs from that of a node
// without a vote.
var ErrCannotAsk = errors.New("cannot ask whether the node has a vote")

// Run succeeds if the node is ready and, with --voter, has a vote. Otherwise it shows
// the reason. With --wait it repeats the check.
func (c *healthCommand) Run(ctx context.Context, std terminal.Streams) error {
	local, err := localAddr(c.HTTPAddr)
	if err != nil && c.URL == "" {
		return &config.Error{Problems: []string{"--http-addr: " + err.Error()}}
	}
	base := strings.TrimSuffix(cmp.Or(c.URL, "http://"+local), "/")
	waiting, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for {
		checks, err := c.check(ctx, base)
		if err != nil && !isConfigError(err) && loop.Pause(waiting, callPause) {
			continue
		}
		if len(checks) > 0 {
			fmt.Fprintln(std.Out, strings.TrimSpace(string(checks)))
		}
		return err
	}
}

// check asks the node once. It returns the node's list of checks, also if one fails.
func (c *healthCommand) check(ctx context.Context, base string) (checks []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	ready, process, checks, err := c.get(ctx, base+"/readyz")
	switch {
	case err != nil:
		return nil, err
	case ready != http.StatusOK:
		return checks, fmt.Errorf("not ready: %s answers %d", base, ready)
	case !c.Voter:
		return checks, nil
	}
	private := target{nodes: nodes{[]string{c.ClusterAddr}, c.SecretFile}, Timeout: c.Timeout}
	status, err := ask[admin.Status](ctx, &private, admin.PathStatus, nil)
	if failed, is := errors.AsType[*admin.CallError](err); is && failed.Status == 0 {
		return checks, fmt.Errorf("%w: %w", ErrCannotAsk, err)
	}
	if err == nil && status.Process != process {
		return checks, fmt.Errorf("%w: %s and the private port %s belong to different nodes; name the ports of one node with --http-addr (or --url) and --cluster-addr", ErrCannotAsk, base, c.ClusterAddr)
	}
	if err == nil && status.Membership != admin.Voter {
		err = fmt.Errorf("no voter yet: its membership is %q", status.Membership)
	}
	return checks, err
}

// get returns the status of a response, the id of the process that gave it, and its body.
func (c *healthCommand) get(ctx context.Context, url string) (status int, process string, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", nil, &config.Error{Problems: []string{"--url: " + err.Error()}}
	}
	if c.JSON {
		req.Header.Set("Accept", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, res.Header.Get(api.HeaderProcess), body, err
}
