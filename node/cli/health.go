package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

// maxAnswer bounds how much of a node's answer is read.
const maxAnswer = 16 << 10

type healthCommand struct {
	URL      string        `name:"url" env:"COMMONS_HEALTH_URL" placeholder:"URL" help:"Base URL of the node (default: made from --http-addr)."`
	HTTPAddr string        `name:"http-addr" env:"COMMONS_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the node's public HTTP service listens."`
	Timeout  time.Duration `name:"timeout" env:"COMMONS_HEALTH_TIMEOUT" default:"5s" placeholder:"DURATION" help:"How long to wait for the answer."`
	Voter    bool          `name:"voter" help:"Fail also while the node has no vote: it counts for no majority yet. Its private port says so."`

	ClusterAddr string `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Private port of the node, for --voter."`
	SecretFile  string `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret, for --voter; not needed for a node on this machine that has none."`

	JSON bool `name:"json" help:"Print JSON."`
}

// Run succeeds when the node says that it is ready, and else shows why not. With
// --voter it has to have a vote, too.
func (c *healthCommand) Run(ctx context.Context, std streams) error {
	base := c.URL
	if base == "" {
		var err error
		if base, err = localURL(c.HTTPAddr); err != nil {
			return &configError{[]string{"--http-addr: " + err.Error()}}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	base = strings.TrimSuffix(base, "/")
	ready, body, err := c.get(ctx, base+"/readyz")
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, strings.TrimSpace(string(body)))
	if ready != http.StatusOK {
		return fmt.Errorf("not ready: %s answers %d", base, ready)
	}
	if !c.Voter {
		return nil
	}
	private := target{ClusterAddr: []string{c.ClusterAddr}, SecretFile: c.SecretFile, Timeout: c.Timeout}
	status, err := ask[admin.Status](ctx, &private, admin.PathStatus, nil)
	if err == nil && status.Membership != admin.Voter {
		err = fmt.Errorf("no voter yet: its membership is %q", status.Membership)
	}
	return err
}

func (c *healthCommand) get(ctx context.Context, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, &configError{[]string{"--url: " + err.Error()}}
	}
	if c.JSON {
		req.Header.Set("Accept", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, body, err
}

// localURL returns the URL under which a process on the same machine reaches a
// service that listens at addr.
func localURL(addr string) (string, error) {
	local, err := localAddr(addr)
	if err != nil {
		return "", err
	}
	return "http://" + local, nil
}
