package api

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestPreferredCoding is the weight of codings (RFC 9110, 12.5.3).
func TestPreferredCoding(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"":                                  codingIdentity,
		"gzip":                              codingGzip,
		"x-gzip":                            codingGzip,
		"zstd":                              codingZstd,
		"gzip, deflate, br, zstd":           codingZstd,
		"gzip, deflate, br":                 codingGzip,
		"GZIP;Q=0.5":                        codingGzip,
		"br, deflate":                       codingIdentity,
		"*":                                 codingZstd,
		"*;q=0":                             codingIdentity,
		"zstd;q=0, *":                       codingGzip,
		"gzip;q=0, zstd;q=0, *;q=1":         codingIdentity,
		"zstd;q=0.5, gzip;q=0.8":            codingGzip,
		"gzip ; q=0.8 ,zstd; q=0.8":         codingZstd,
		"gzip;q=0.5, identity":              codingIdentity,
		"gzip;q=0.5, identity;q=0.5":        codingGzip,
		"gzip, identity;q=0":                codingGzip,
		"identity;q=0":                      codingIdentity,
		"gzip;q=x":                          codingIdentity,
		"gzip;q=2":                          codingIdentity,
		"gzip;q=-1":                         codingIdentity,
		"gzip;q=nan":                        codingIdentity,
		"gzip;level=9;q=0.1":                codingGzip,
		"gzip;q=0":                          codingIdentity,
		strings.Repeat(",;=q", 5000):        codingIdentity,
		strings.Repeat("a,", 5000) + "gzip": codingGzip,
	} {
		check.Equal(t, preferredCoding(accept), want, "%.60q", accept)
	}
}

// TestBusyEncoders holds that no answer waits for an encoder, and that encoders come
// back.
func TestBusyEncoders(t *testing.T) {
	t.Parallel()
	e := must.Get(newEncodings())(t)
	body := []byte(strings.Repeat("commons ", 1000))
	for range 2 * cap(e.free) {
		for _, coding := range []string{codingZstd, codingGzip} {
			if got := e.encode(coding, body); len(got) == 0 || len(got) > 200 {
				t.Errorf("%s: %d bytes", coding, len(got))
			}
		}
	}
	for range cap(e.free) {
		<-e.free
	}
	check.Empty(t, e.encode(codingZstd, body), "encoded with every encoder busy")
}
