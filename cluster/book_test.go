package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func bookMember(id, cluster, gossip string) Member {
	m := testMeta(id)
	m.ClusterAddr = cluster
	return Member{Meta: m, GossipAddr: gossip}
}

func TestBookIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "addresses.json")
	var out logs
	b := OpenBook(path, out.logger())
	if _, ok := b.Resolve("a-1"); ok || len(b.GossipAddrs()) != 0 {
		t.Error("a new book is not empty")
	}
	update := func(members ...Member) {
		t.Helper()
		must.Do(t, b.Update(members))
	}
	update(bookMember("a-1", "a:1", "192.0.2.1:1"), bookMember("b-1", "b:1", "192.0.2.2:1"))
	update(bookMember("a-1", "a:2", "192.0.2.1:1"))
	check := func(b *Book) {
		t.Helper()
		for id, want := range map[string]string{"a-1": "a:2", "b-1": "b:1"} {
			if got, ok := b.Resolve(id); !ok || got != want {
				t.Errorf("%s: %q, %v", id, got, ok)
			}
		}
		got := b.GossipAddrs()
		slices.Sort(got)
		check.Diff(t, got, []string{"192.0.2.1:1", "192.0.2.2:1"}, "gossip addresses")
	}
	check(b)
	check(OpenBook(path, out.logger()))
	must.Do(t, b.Forget("b-1"))
	if _, ok := OpenBook(path, out.logger()).Resolve("b-1"); ok {
		t.Error("not forgotten")
	}
	if out.has("cannot be read") {
		t.Error("a good book was called unreadable")
	}
}

func TestBookWritesOnlyChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "addresses.json")
	b := OpenBook(path, (&logs{}).logger())
	member := bookMember("a-1", "a:1", "192.0.2.1:1")
	check.Fails(b.Update([]Member{member}))(t, "wrote into a missing directory")
	got, _ := b.Resolve("a-1")
	check.Equal(t, got, "a:1", "in memory")
	check.Err(t, b.Update([]Member{member}), nil, "nothing changed, yet")
}

func TestBookCorrupt(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", `{"version":2,"servers":{"a-1":{"cluster":"a:1"}}}`, `[]`} {
		path := filepath.Join(t.TempDir(), "addresses.json")
		mustWrite(t, path, content)
		var out logs
		b := OpenBook(path, out.logger())
		if !out.has("starts empty") {
			t.Errorf("%q: not logged", content)
		}
		must.Do(t, b.Update([]Member{bookMember("a-1", "a:1", "192.0.2.1:1")}))
		got, _ := OpenBook(path, out.logger()).Resolve("a-1")
		check.Equal(t, got, "a:1", "the address in place of %q", content)
	}
}

func TestBookSkipsBadEntries(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "addresses.json")
	mustWrite(t, path, `{"version":1,"servers":{"a-1":{"cluster":"a:1"},"b 1":{"cluster":"b:1"},"c-1":{"cluster":"c"}}}`)
	b := OpenBook(path, (&logs{}).logger())
	for id, want := range map[string]bool{"a-1": true, "b 1": false, "c-1": false} {
		_, ok := b.Resolve(id)
		check.Equal(t, ok, want, "%s is known", id)
	}
}

func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	b := OpenBook(filepath.Join(t.TempDir(), "addresses.json"), (&logs{}).logger())
	for i := range MaxBookEntries {
		id := fmt.Sprintf("n-%d", i)
		b.entries[id] = bookEntry{Cluster: "h:1", Seen: time.Unix(int64(i), 0)}
	}
	must.Do(t, b.Update([]Member{bookMember("new-1", "a:1", "192.0.2.1:1"), bookMember("n-1", "b:1", "192.0.2.1:1")}))
	check.Equal(t, len(b.entries), MaxBookEntries, "entries")
	for id, want := range map[string]bool{"n-0": false, "n-1": true, "n-2": true, "new-1": true} {
		_, ok := b.Resolve(id)
		check.Equal(t, ok, want, "%s is known", id)
	}
}
