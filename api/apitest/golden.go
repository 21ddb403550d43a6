package apitest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/golden"
)

// PublishHello is a command like any.
var PublishHello = command.Publish{
	Agent: "ada", AgentKey: "ada", Kind: command.KindMessage, Title: "Hello", Body: "Hello",
}

// keys finds what is another text each time.
var keys = regexp.MustCompile(`(cr?k)_[a-z2-7]{52}`)

// secrets finds webhook secrets in the same way.
var secrets = regexp.MustCompile(`whsec_[A-Za-z0-9+/]{43}=`)

// CheckGolden sends a request and compares the whole response with the stored one.
func CheckGolden(t *testing.T, s *Server, name, method, path, contentType, body string, headers ...string) {
	t.Helper()
	r := s.Do(method, path, body, append(headers, "Content-Type", contentType)...)
	var got bytes.Buffer
	fmt.Fprintf(&got, "%s %s\n%d\n", method, path, r.Status)
	for _, name := range []string{"Content-Type", "Location", "Allow", "Cache-Control", "X-Commons-Node", "X-Commons-Index", "Retry-After"} {
		if value := r.Header.Get(name); value != "" {
			fmt.Fprintf(&got, "%s: %s\n", name, value)
		}
	}
	shown := keys.ReplaceAll(bytes.TrimRight(r.Body, "\n"), []byte("${1}_"+strings.Repeat("a", 52)))
	fmt.Fprintf(&got, "\n%s\n", secrets.ReplaceAll(shown, []byte("whsec_…")))
	golden.Compare(t, filepath.Join("testdata", name+".golden"), got.String())
}
