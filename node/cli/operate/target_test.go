package operate

import (
	"testing"
)

func TestLocalAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080",
		":8080":          "127.0.0.1:8080",
		"0.0.0.0:80":     "127.0.0.1:80",
		"[::]:80":        "[::1]:80",
		"node-1:80":      "node-1:80",
		"127.0.0.1:":     "",
		"8080":           "",
	} {
		got, err := localAddr(addr)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", addr, got, err)
		}
	}
}
