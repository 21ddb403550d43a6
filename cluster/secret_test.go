package cluster

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestLoadSecretsProblems(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("s", MinSecretBytes)
	other := strings.Repeat("o", MinSecretBytes)
	for _, tt := range []struct {
		name, content string
		keys          int
		problems      []string
	}{
		{"one", good + "\n", 1, nil},
		{"no newline at the end", good, 1, nil},
		{"two", good + "\n" + other + "\n", 2, nil},
		{"white space and blank lines", "\n  " + good + "\t\r\n\n" + other + "\r\n\n", 2, nil},
		{"twice the same", good + "\n" + good + "\n", 1, nil},
		{"empty", "", 0, []string{"holds no secret"}},
		{"blank", " \n\n", 0, []string{"holds no secret"}},
		{"one byte short", good[1:], 0, []string{"line 1 has 31 bytes, at least 32"}},
		{"short after trimming", good[1:] + "   ", 0, []string{"line 1 has 31 bytes"}},
		{"three", good + "\n" + other + "\n" + good + "x\n", 0, []string{"3 lines, at most 2"}},
		{"binary", good + "\x00\x01", 0, []string{"line 1 is not printable"}},
		{"bad UTF-8", good + "\xff", 0, []string{"line 1 is not printable"}},
		{"too long", strings.Repeat("x", MaxSecretFileBytes+1), 0, []string{"longer than 8192 bytes"}},
		{"all at once", "short\n\x01\nalso short\n", 0, []string{"line 1 has 5", "line 2 is not", "line 3 has 10", "3 lines"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secret")
			mustWrite(t, path, tt.content)
			s, err := LoadSecrets(path)
			if len(tt.problems) == 0 {
				must.Do(t, err)
				must.Equal(t, len(s.KeyIDs()), tt.keys, "keys")
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range append(tt.problems, "commons secret generate --keep", path) {
				check.Contains(t, err.Error(), part, "the error")
			}
		})
	}
}

func TestLoadSecretsMissingFile(t *testing.T) {
	t.Parallel()
	_, err := LoadSecrets(filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.Contains(err.Error(), "commons secret generate") {
		t.Fatalf("got %v", err)
	}
}

func TestSecretsAreDeterministicAndDistinct(t *testing.T) {
	t.Parallel()
	a1, a2, b := testSecrets(t, "a"), testSecrets(t, "a"), testSecrets(t, "b")
	ka1, ka2, kb := a1.current.Load().first(), a2.current.Load().first(), b.current.Load().first()
	if ka1.id != ka2.id || !bytes.Equal(ka1.gossip, ka2.gossip) || !ka1.ca.cert.Equal(ka2.ca.cert) {
		t.Error("one secret gives different keys")
	}
	if ka1.id == kb.id || bytes.Equal(ka1.gossip, kb.gossip) || ka1.ca.key.Equal(kb.ca.key) {
		t.Error("two secrets give equal keys")
	}
	if a1.LoopbackOnly() || len(a1.GossipKeys()[0]) != gossipKeyBytes {
		t.Error("secret file not in use")
	}
}

// The derivation is a protocol between versions of the program.
func TestDerivationIsFixed(t *testing.T) {
	t.Parallel()
	s := must.Get(LoadSecrets(""))(t)
	if !s.LoopbackOnly() {
		t.Error("no secret file, yet not confined to loopback")
	}
	check.Equal(t, s.KeyIDs()[0], "5cde8bee0004c355", "key id")
}

func TestSealOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, "a")
	s := must.Get(LoadSecrets(path))(t)
	plain := []byte("data key")
	sealed := s.SealDataKey(plain)
	open := func(want error) {
		t.Helper()
		got, err := s.OpenDataKey(sealed)
		if !errors.Is(err, want) || want == nil && !bytes.Equal(got, plain) {
			t.Fatalf("got %q, %v; want error %v", got, err, want)
		}
	}
	open(nil)
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		check.Fails(s.OpenDataKey(bad))(t, "opened with byte %d changed", i)
		check.Fails(s.OpenDataKey(sealed[:i]))(t, "opened when cut to %d bytes", i)
	}
	for _, step := range []struct {
		names  []string
		reseal bool
		want   error
	}{
		{[]string{"a", "b"}, false, nil},
		{[]string{"b", "a"}, true, nil},
		{[]string{"b"}, true, ErrSealedElsewhere},
	} {
		writeSecrets(t, path, step.names...)
		if changed, err := s.Reload(); err != nil || !changed {
			t.Fatalf("reload: %v, %v", changed, err)
		}
		check.Equal(t, SealedUnder(sealed) != s.KeyIDs()[0], step.reseal, "%v: needs reseal", step.names)
		open(step.want)
	}
}

func TestOpenWhatALoopbackNodeSealed(t *testing.T) {
	t.Parallel()
	loop := must.Get(LoadSecrets(""))(t)
	sealed := loop.SealDataKey([]byte("x"))
	s := testSecrets(t, "a")
	must.Equal(t, string(must.Get(s.OpenDataKey(sealed))(t)), "x", "the data key")
	if SealedUnder(sealed) == s.KeyIDs()[0] {
		t.Error("the loopback seal would stay")
	}
}

func TestReloadKeepsFormerSecretsOnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, "a")
	s := must.Get(LoadSecrets(path))(t)
	calls := 0
	cancel := s.subscribe(func() { calls++ })
	before := s.KeyIDs()[0]
	mustWrite(t, path, "short\n")
	if changed, err := s.Reload(); err == nil || changed {
		t.Fatalf("reload: %v, %v", changed, err)
	}
	writeSecrets(t, path, "a")
	if changed, err := s.Reload(); err != nil || changed {
		t.Fatalf("unchanged file: %v, %v", changed, err)
	}
	check.Equal(t, calls, 0, "calls")
	check.Equal(t, s.KeyIDs()[0], before, "key ids")
	writeSecrets(t, path, "b", "a")
	if changed, err := s.Reload(); err != nil || !changed || calls != 1 {
		t.Fatalf("changed file: %v, %v, %d calls", changed, err, calls)
	}
	cancel()
	writeSecrets(t, path, "b")
	must.Get(s.Reload())(t)
	check.Equal(t, calls, 1, "after cancel")
}

func TestWatchFollowsTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	writeSecrets(t, path, "a")
	s := must.Get(LoadSecrets(path))(t)
	var out logs
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Watch(ctx, out.logger()) }()
	mustWrite(t, path, "short\n")
	await.Eventually(t, "bad file logged", func() bool { return out.has("former secrets stay") })
	writeSecrets(t, path, "a", "b")
	await.Eventually(t, "second secret taken", func() bool { return len(s.KeyIDs()) == 2 })
	await.Eventually(t, "change logged", func() bool { return out.has("secrets changed") })
	cancel()
	<-done
	check.Equal(t, out.count("former secrets stay"), 1, "lines of the problem")
}
