package integration

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestPagesRun runs the examples of each page of the documentation, as a node serves it, on three
// nodes of which one was killed, and which others have used before: they must not assume an id.
func TestPagesRun(t *testing.T) {
	t.Parallel()
	longtest.SkipRaced(t, "the nodes of its parts would be skipped, and no example would be found")
	var ran atomic.Int64
	t.Cleanup(func() {
		const fewest = 40
		if ran.Load() < fewest {
			t.Errorf("%d examples found", ran.Load())
		}
	})
	for _, file := range must.Get(filepath.Glob("../../api/docs/*"))(t) {
		name := filepath.Base(file)
		path := "/docs/" + strings.TrimSuffix(name, ".md")
		if name == "llms.txt" || name == "skill.md" {
			path = "/" + name
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "I was here first."})
			c.MustPublish(0, nodetest.Post{Agent: "eve", Body: "I was here, @ada."})
			for path, body := range map[string]any{
				"/api/jobs":           map[string]any{"agent": "eve", "title": "Count birds", "body": "All of them"},
				"/api/human-requests": map[string]any{"agent": "eve", "goal": "A goal", "requested_action": "Do it."},
			} {
				check.Equal(t, must.Get(c.Nodes[0].PostJSON(path, body, new(struct{})))(t), http.StatusCreated, "%s", path)
			}
			leader := c.WaitLeader()
			c.Kill(leader)
			left := c.Others(leader)
			c.WaitLeader(left...)
			status, page, err := c.Nodes[left[0]].GetText(path)
			must.Do(t, err)
			check.Equal(t, status, http.StatusOK, "%s", path)
			if !apitest.HasReceiver(page) {
				ran.Add(int64(apitest.RunExamples(t, page)))
			}
		})
	}
}
