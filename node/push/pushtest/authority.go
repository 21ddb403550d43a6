// Package pushtest holds what tests of push need: https receivers on loopback
// addresses, an authority for their certificates, and names that lead to them.
package pushtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// validFor is the life of a test's certificates, to both sides of now.
const validFor = 24 * time.Hour

// Authority signs certificates of receivers.
type Authority struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority returns an authority that nobody knows yet.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test authority"},
		NotBefore: time.Now().Add(-validFor), NotAfter: time.Now().Add(validFor),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(template, template, a.key)
	return a
}

// Certificate returns a certificate for names of hosts.
func (a *Authority) Certificate(hosts ...string) tls.Certificate {
	a.tb.Helper()
	key := newKey(a.tb)
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Test receiver"}, DNSNames: hosts,
		NotBefore: time.Now().Add(-validFor), NotAfter: time.Now().Add(validFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Pool returns the authority as the only one that is trusted.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// File returns the path of a file that holds the authority's certificate.
func (a *Authority) File() string {
	a.tb.Helper()
	path := filepath.Join(a.tb.TempDir(), "authority.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return path
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return cert
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}
