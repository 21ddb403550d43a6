package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxReadiness bounds how much of a node's answer is read and shown.
const maxReadiness = 16 << 10

type healthCommand struct {
	URL      string        `name:"url" env:"COMMONS_HEALTH_URL" placeholder:"URL" help:"Base URL of the node (default: made from --http-addr)."`
	HTTPAddr string        `name:"http-addr" env:"COMMONS_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the node's public HTTP service listens."`
	Timeout  time.Duration `name:"timeout" env:"COMMONS_HEALTH_TIMEOUT" default:"5s" placeholder:"DURATION" help:"How long to wait for the answer."`
	JSON     bool          `name:"json" help:"Print JSON."`
}

// Run succeeds when the node says that it is ready, and else shows why not.
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/readyz", nil)
	if err != nil {
		return &configError{[]string{"--url: " + err.Error()}}
	}
	if c.JSON {
		req.Header.Set("Accept", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReadiness))
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, strings.TrimSpace(string(body)))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s answers %s", base, res.Status)
	}
	return nil
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
