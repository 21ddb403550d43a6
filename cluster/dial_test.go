package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
)

// operate sends a request as an operator does and returns the answer's body.
func operate(t *testing.T, secrets *Secrets, addr string) (string, error) {
	t.Helper()
	client, err := OperatorClient(Network{}, secrets, addr)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://node/x", strings.NewReader("hello"))
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(res.Body)
	return string(body), errors.Join(err, res.Body.Close())
}

func TestOperatorsAreAdmittedByTheSecret(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "one", "two")
	n := startNode(t, &directory{}, "a-1", secrets, nil)
	n.cluster.Store("c0ffee") // an operator belongs to no cluster
	answer := regexp.MustCompile(`^operator-[0-9a-z]{8} HTTP/2\.0 hello$`)
	for _, names := range [][]string{{"one"}, {"one", "two"}, {"two", "one"}} {
		got, err := operate(t, testSecrets(t, names...), n.AdvertiseAddr())
		if err != nil || !answer.MatchString(got) {
			t.Errorf("with the secrets %v: %q, %v", names, got, err)
		}
	}
	// "two" alone cannot recognise the node as one of the cluster: it uses "one".
	for _, name := range []string{"other", "two"} {
		if got, err := operate(t, testSecrets(t, name), n.AdvertiseAddr()); err == nil || !strings.Contains(err.Error(), "another cluster secret") {
			t.Errorf("with the secret %s: %q, %v", name, got, err)
		}
	}
}

func TestOperatorAddresses(t *testing.T) {
	t.Parallel()
	loopback := must.Get(LoadSecrets(""))(t)
	for addr, want := range map[string]string{
		"192.0.2.1:7000": "without a secret file only loopback addresses are allowed",
		"127.0.0.1":      "needs a host and a port",
		":7000":          "needs a host and a port",
		"127.0.0.1:x":    "is not a number",
	} {
		if _, err := OperatorClient(Network{}, loopback, addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
}
