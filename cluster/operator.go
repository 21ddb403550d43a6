package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// operatorName begins the name that an operator's program shows to nodes.
const operatorName = "operator-"

// OperatorClient returns an HTTP client for the private port of whichever node
// listens at addr (host:port): the host of its URLs stands for nothing. It is
// for programs that are no nodes and have the cluster's secret. Without a secret
// file only loopback addresses are allowed. It has no timeout but the request's
// context; answers are those of one node as long as connections are kept.
func OperatorClient(secrets *Secrets, addr string) (*http.Client, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if host == "" || port == 0 {
		return nil, fmt.Errorf("address %q needs a host and a port", addr)
	}
	if secrets.LoopbackOnly() {
		if err := CheckLoopback(addr); err != nil {
			return nil, err
		}
	}
	suffix := make([]byte, suffixBytes)
	_, _ = rand.Read(suffix) // never fails
	creds := &credentials{
		serverID:  operatorName + suffixEncoding.EncodeToString(suffix),
		clusterID: func() string { return "" },
		now:       time.Now,
	}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return newClient(&http.Transport{
		Protocols:          &protocols,
		DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: clientPingAfter, PingTimeout: clientPingTimeout,
			WriteByteTimeout: writeStallTimeout, MaxReceiveBufferPerStream: streamWindowBytes,
			MaxReceiveBufferPerConnection: connWindowBytes,
		},
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialOperator(ctx, network, joinAddr(host, port), secrets.current.Load(), creds)
		},
	}), nil
}

// dialOperator connects to any node of the secret's cluster.
func dialOperator(ctx context.Context, network, addr string, keys *keyset, creds *credentials) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	own, err := creds.certificate(keys)
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tc := tls.Client(raw, &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil },
		RootCAs:              keys.pool,
		ServerName:           certDNSName,
		NextProtos:           []string{ProtocolHTTP},
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := creds.verifyPeer(cs, keys)
			return err
		},
	})
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(&handshakeError{err}, raw.Close())
	}
	return tc, nil
}
