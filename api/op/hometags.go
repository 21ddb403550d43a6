package op

import (
	"strings"
	"sync"

	"github.com/commons-cluster/commons/fsm/view"
)

// maxHomeTags bounds the entity tags of homes that are kept.
const maxHomeTags = 4096

// homeTags is a cache of the entity tags of homes in two generations, so that a call without
// news renders no home.
type homeTags struct {
	mu         sync.Mutex
	young, old map[HomeKey]homeTag
}

// HomeKey is the part of a request that its home depends on.
type HomeKey struct {
	Agent string // folded
	Since int64  // negative means the default
	Brief bool
	Owned bool // by the caller's key: it has the entries of its own that are hidden
}

// homeTag is an entity tag, valid for the views of a version of a cluster before an instant.
type homeTag struct {
	tag, cluster string
	version      uint64
	until        int64
}

func (t *homeTags) Get(key HomeKey, view *view.View) (tag string, known bool) {
	t.mu.Lock()
	kept, known := t.young[key]
	if !known {
		kept, known = t.old[key]
	}
	t.mu.Unlock()
	return kept.tag, known && kept.version == view.Version() && kept.cluster == view.ClusterID() && view.Time() < kept.until
}

func (t *homeTags) Put(key HomeKey, view *view.View, until int64, tag string) {
	key.Agent = strings.Clone(key.Agent) // it is a part of the whole request
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.young) >= maxHomeTags/2 || t.young == nil {
		t.old, t.young = t.young, make(map[HomeKey]homeTag)
	}
	t.young[key] = homeTag{tag, view.ClusterID(), view.Version(), until}
}
