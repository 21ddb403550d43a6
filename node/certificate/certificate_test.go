package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
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
	third := reissue(t, dir, "three.example")
	thirdKey := must.Get(os.ReadFile(keyFile))(t)
	must.Do(t, os.WriteFile(keyFile, key, 0o600))
	for range 2 {
		inUse(second, "a certificate with another's key")
	}
	if n := strings.Count(log.String(), "not reloaded"); n != 1 || !strings.Contains(k.Rejected(), keyFile) {
		t.Errorf("logged %d times, shown as %q", n, k.Rejected())
	}
	must.Do(t, os.WriteFile(keyFile, thirdKey, 0o600))
	inUse(third, "the repaired pair")
	check.Equal(t, k.Rejected(), "", "problem after the repair")
	reissue(t, dir) // names no host
	k.reload(t.Context())
	check.Contains(t, k.Rejected(), "names no host", "a certificate without a host is shown as")
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

// issue puts a certificate into the directory that is valid between two times from now.
func issue(t *testing.T, dir string, from, until time.Duration) *x509.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"one.example"},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	pushtest.WritePair(t, dir, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	return must.Get(x509.ParseCertificate(der))(t)
}

// TestOutsideItsTime: a valid certificate stays in use if its files are replaced by those of one
// that is expired, such as from a backup, or not valid yet. At the start such a one is used, with
// a warning, until there is a valid one.
func TestOutsideItsTime(t *testing.T) {
	for name, tc := range map[string]struct {
		from, until time.Duration
		problem     string
	}{
		"expired":       {-2 * time.Hour, -time.Hour, "expired on"},
		"not valid yet": {time.Hour, 2 * time.Hour, "is not valid before"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			valid := reissue(t, dir, "one.example")
			var log bytes.Buffer
			load := func() *Keeper {
				return must.Get(Load(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), slog.New(slog.NewTextHandler(&log, nil)), time.Now))(t)
			}
			k := load()
			other := issue(t, dir, tc.from, tc.until)
			k.reload(t.Context())
			if got := must.Get(k.Get(nil))(t); !got.Leaf.Equal(valid) || !strings.Contains(k.Rejected(), tc.problem) {
				t.Errorf("the certificate from %s until %s is in use; shown is %q", got.Leaf.NotBefore, got.Leaf.NotAfter, k.Rejected())
			}
			log.Reset()
			k = load()
			check.ErrText(t, errors.New(log.String()), tc.problem, "log of the start")
			k.reload(t.Context())
			if got := must.Get(k.Get(nil))(t); !got.Leaf.Equal(other) || k.Rejected() != "" {
				t.Errorf("the certificate until %s is in use; shown is %q", got.Leaf.NotAfter, k.Rejected())
			}
			valid = reissue(t, dir, "one.example")
			k.reload(t.Context())
			check.Equal(t, must.Get(k.Get(nil))(t).Leaf.Equal(valid), true, "the valid certificate is in use")
		})
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	leaf, now := issue(t, dir, -time.Hour, ExpiresSoon+2*time.Hour), time.Now()
	k := must.Get(Load(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), slog.Default(), func() time.Time { return now }))(t)
	for _, tt := range []struct {
		name string
		left time.Duration // until its end
		want string
	}{
		{"too early", leaf.NotAfter.Sub(leaf.NotBefore) + time.Hour, "is not valid before"},
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
