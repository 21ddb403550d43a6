package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/nodetest/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// handshakesEach is the number of handshakes in one step of an attack.
	handshakesEach = 20
	// httpsFlag is the flag of the address of HTTPS.
	httpsFlag = "https-addr"
	// recordHeader is the length of a header of a TLS record, which ends with the record's length.
	recordHeader = 5
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

// clientHello is the first record of a handshake. An attacker sends it again and again: the server
// computes, and the attacker does not.
var clientHello = sync.OnceValue(func() []byte {
	recorded, client := net.Pipe()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: "example.com"}).Handshake() }() //nolint:gosec // no server answers it
	header := make([]byte, recordHeader)
	harness.Got(io.ReadFull(recorded, header))
	record := make([]byte, binary.BigEndian.Uint16(header[recordHeader-2:]))
	harness.Got(io.ReadFull(recorded, record))
	harness.Must(recorded.Close())
	return slices.Concat(header, record)
})

// handshakes begins handshakes and leaves: at once, or when the server has answered.
func handshakes(ctx context.Context, _ *bench, at stranger, n int) {
	for i := range handshakesEach {
		conn := dialAt(ctx, at, at.node.Flags[httpsFlag])
		if conn == nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(clientHello())
		if (n+i)%2 == 0 {
			_, _ = conn.Read(make([]byte, 1))
		}
		_ = conn.Close()
	}
}
