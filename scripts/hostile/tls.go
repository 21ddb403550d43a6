package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/commons-cluster/commons/node/nodetest/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// handshakesEach is the number of handshakes in one step of an attack.
	handshakesEach = 20
	// httpsFlag is the flag of the address of HTTPS.
	httpsFlag = "https-addr"
)

// serveTLS has the nodes of a cluster serve HTTPS, with a certificate for tests.
func serveTLS(c *harness.Cluster) {
	made := httptest.NewTLSServer(nil)
	made.Close()
	pair := made.TLS.Certificates[0]
	key := harness.Got(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))
	certFile, keyFile := c.Run.Path("cert.pem"), c.Run.Path("key.pem")
	harness.Must(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	harness.Must(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	first := harness.Got(freeport.Take(len(c.Nodes)))
	for i, n := range c.Nodes {
		n.Flags["tls-cert"], n.Flags["tls-key"] = certFile, keyFile
		n.Flags[httpsFlag] = "127.0.0.1:" + strconv.Itoa(first+i)
	}
}

// handshakes opens connections over TLS and leaves.
func handshakes(ctx context.Context, _ *bench, at stranger, n int) {
	for i := range handshakesEach {
		conn := dialAt(ctx, at, at.node.Flags[httpsFlag])
		if conn == nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an attacker does not care
		if (n+i)%2 == 0 {
			_ = secure.HandshakeContext(ctx)
		} else {
			// The server computes, and the client does not.
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			_ = secure.HandshakeContext(ctx)
			cancel()
		}
		_ = conn.Close()
	}
}
