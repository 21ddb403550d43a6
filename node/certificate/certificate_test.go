package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// reissue puts another pair into the directory, and returns its certificate.
func reissue(t *testing.T, dir string, hosts ...string) *x509.Certificate {
	t.Helper()
	pair := pushtest.NewAuthority(t).Certificate(hosts...)
	pushtest.WritePair(t, dir, pair)
	return pair.Leaf
}

// A new pair is used, a bad one is not, and each problem is logged once and shown until it is over.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := Load(certFile, keyFile, slog.Default(), time.Now); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Errorf("files that do not exist: error %v", err)
	}
	first := reissue(t, dir, "one.example")
	var log bytes.Buffer
	k := must.Get(Load(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)), time.Now))(t)
	inUse := func(want *x509.Certificate, what string) {
		t.Helper()
		k.reload(t.Context())
		got := must.Get(k.Get(nil))(t)
		if !got.Leaf.Equal(want) {
			t.Errorf("%s: the certificate of %v is in use", what, got.Leaf.DNSNames)
		}
	}
	inUse(first, "unchanged files")
	check.Equal(t, k.Rejected()+log.String(), "", "problem and log of unchanged files")
	second := reissue(t, dir, "two.example")
	inUse(second, "a new pair")
	key := must.Get(os.ReadFile(keyFile))(t)
	reissue(t, dir, "three.example")
	third := must.Get(os.ReadFile(keyFile))(t)
	must.Do(t, os.WriteFile(keyFile, key, 0o600))
	for range 2 {
		inUse(second, "a certificate with another's key")
	}
	if n := strings.Count(log.String(), "not reloaded"); n != 1 || !strings.Contains(k.Rejected(), keyFile) {
		t.Errorf("logged %d times, shown as %q", n, k.Rejected())
	}
	must.Do(t, os.WriteFile(keyFile, third, 0o600))
	k.reload(t.Context())
	check.Equal(t, k.Rejected(), "", "problem after the repair")
	reissue(t, dir) // names no host
	k.reload(t.Context())
	if !strings.Contains(k.Rejected(), "names no host") {
		t.Errorf("a certificate without a host is shown as %q", k.Rejected())
	}
}

// TestChainIsReplaced: a chain that was wrong is corrected, under the same certificate.
func TestChainIsReplaced(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	reissue(t, dir, "one.example")
	leaf := must.Get(os.ReadFile(certFile))(t)
	chain := func(issuer *x509.Certificate) {
		t.Helper()
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Raw})
		must.Do(t, os.WriteFile(certFile, slices.Concat(leaf, block), 0o600))
	}
	wrong, right := reissue(t, t.TempDir(), "wrong.example"), reissue(t, t.TempDir(), "right.example")
	chain(wrong)
	k := must.Get(Load(certFile, keyFile, slog.New(slog.DiscardHandler), time.Now))(t)
	chain(right)
	k.reload(t.Context())
	if got := must.Get(k.Get(nil))(t).Certificate; len(got) != 2 || !bytes.Equal(got[1], right.Raw) {
		t.Errorf("a chain of %d certificates is in use, without the new one", len(got))
	}
}

// TestExpiredReplacesNoValidOne: a valid certificate stays in use if its files are replaced by
// those of an expired one, such as from a backup.
func TestExpiredReplacesNoValidOne(t *testing.T) {
	dir := t.TempDir()
	valid := reissue(t, dir, "one.example")
	k := must.Get(Load(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), slog.New(slog.DiscardHandler), time.Now))(t)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"one.example"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	expired := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	pushtest.WritePair(t, dir, tls.Certificate{Certificate: [][]byte{expired}, PrivateKey: key})
	k.reload(t.Context())
	if got := must.Get(k.Get(nil))(t); !got.Leaf.Equal(valid) || !strings.Contains(k.Rejected(), "expired on") {
		t.Errorf("the certificate until %s is in use; shown is %q", got.Leaf.NotAfter, k.Rejected())
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	leaf := reissue(t, dir, "one.example")
	var now time.Time
	now = leaf.NotBefore.Add(time.Minute)
	k := must.Get(Load(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), slog.Default(), func() time.Time { return now }))(t)
	for _, tt := range []struct {
		name string
		left time.Duration
		want string
	}{
		{"in time", ExpiresSoon + time.Hour, ""},
		{"soon", ExpiresSoon - time.Hour, "expires in 13 days"},
		{"over", -time.Hour, "has expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now = leaf.NotAfter.Add(-tt.left)
			got := strings.Join(k.Warnings(), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
	var plain *Keeper
	check.Equal(t, len(plain.Warnings()), 0, "warnings without HTTPS")
	check.Equal(t, plain.Expiry().IsZero(), true, "no expiry without HTTPS")
}
