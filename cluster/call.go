package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// MaxAnswerBytes bounds a JSON response on the private port.
const MaxAnswerBytes = 4 << 20

// Send sends a request to a server's private port: a POST with JSON, or a GET where
// request is nil. The client is a Port's, or an OperatorClient, which ignores the server
// id. The caller closes the response's body.
func Send(ctx context.Context, client *http.Client, serverID, path string, request any) (*http.Response, error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if request != nil {
		data, err := json.Marshal(request)
		if err != nil {
			return nil, fmt.Errorf("call %s of %s: %w", path, serverID, err)
		}
		method, body = http.MethodPost, bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+serverID+path, body)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Ask sends a request like Send and decodes the JSON response. A status other than 200
// is an error.
func Ask[Answer any](ctx context.Context, client *http.Client, serverID, path string, request any) (Answer, error) {
	var answer Answer
	res, err := Send(ctx, client, serverID, path, request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	if res.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s answered %s", serverID, res.Status)
	}
	if err := ReadAnswer(res.Body, &answer); err != nil {
		return answer, fmt.Errorf("answer of %s: %w", serverID, err)
	}
	return answer, nil
}

// ReadAnswer reads a JSON answer of at most MaxAnswerBytes.
func ReadAnswer(r io.Reader, answer any) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxAnswerBytes+1))
	if err != nil {
		return err
	}
	if len(data) > MaxAnswerBytes {
		return fmt.Errorf("it has more than %d bytes", MaxAnswerBytes)
	}
	return json.Unmarshal(data, answer)
}

// Reply writes a JSON answer on the private port.
func Reply(w http.ResponseWriter, logger *slog.Logger, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		logger.Debug("an answer on the private port was lost", "error", err)
	}
}

// OperatorClient returns an HTTP client for the private port of the node at addr, for
// programs that have the cluster's secret and are not nodes. It ignores the host of URLs.
// Without a secret file, addr must be a loopback address. Only a request's context limits
// its time.
func OperatorClient(network Network, secrets *Secrets, addr string) (*http.Client, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if host == "" || port == 0 {
		return nil, fmt.Errorf("address %q needs a host and a port", addr)
	}
	if secrets.LoopbackOnly() {
		if err := checkAllLoopback(net.DefaultResolver.LookupHost, addr); err != nil {
			return nil, err
		}
	}
	creds := &credentials{serverID: operatorName + newSuffix(), clusterID: func() string { return "" }, now: time.Now}
	dial := network.WithDefaults(net.KeepAliveConfig{}).DialContext
	return newClient(newHTTP2(operatorPingTimeout, func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
		defer cancel()
		raw, err := dial(ctx, "tcp", joinAddr(host, port))
		if err != nil {
			return nil, err
		}
		return operatorHandshake(ctx, raw, secrets.current.Load(), creds)
	})), nil
}

// operatorHandshake verifies that a connection leads to a node of the secret's cluster.
func operatorHandshake(ctx context.Context, raw net.Conn, keys *keyset, creds *credentials) (net.Conn, error) {
	own, err := creds.certificate(keys)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	tc := clientTLS(raw, own, keys, ProtocolHTTP, func(cs tls.ConnectionState) error {
		_, err := creds.verifyPeer(cs, keys)
		return err
	})
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(&handshakeError{err}, raw.Close())
	}
	return tc, nil
}
