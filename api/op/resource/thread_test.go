package resource_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// TestThreadFromBeginning checks that a conversation can be read from its beginning, in pages of
// any size, and that it is the reverse of the usual order.
func TestThreadFromBeginning(t *testing.T) {
	s := apitest.New(t)
	root, all := longThread(s, 60)
	check.Diff(t, reversed(readAll(t, s, "/api/entries?thread="+root+"&limit=100")), all, "newest first")
	for _, limit := range []int{1, 2, 7, 30, 59, 60, 61, 62, 100} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			for _, filter := range []string{"", "&agent=agent-1", "&since=0"} {
				query := fmt.Sprintf("/api/entries?thread=%s&limit=%d%s", root, limit, filter)
				check.Diff(t, readAll(t, s, query+"&order=oldest"), reversed(readAll(t, s, query)), "%s", filter)
			}
		})
	}
	for _, bad := range []string{"order=oldest", "order=sideways&thread=" + root, "order=oldest&q=word&thread=" + root, "order=oldest&unanswered=1&thread=" + root} {
		apitest.CheckError(t, s.Get("/api/entries?"+bad))
	}
	cursor := apitest.Decoded[apitest.List](t, s.Get("/api/entries?limit=5&thread="+root)).NextCursor
	apitest.CheckError(t, s.Get("/api/entries?limit=5&order=oldest&thread="+root+"&cursor="+*cursor))
}

// TestLongConversation checks that the page of a long conversation goes forwards, and that a deep reply names its parent and links to the root.
func TestLongConversation(t *testing.T) {
	s := apitest.New(t)
	root, all := longThread(s, 150)
	path, shown := "/e/"+root, []string{}
	for path != "" {
		p := apitest.Browse(t, s, path, http.StatusOK)
		path = ""
		shown = append(shown, nodeIDs(p.All("main")[0])...)
		for _, a := range p.All("a") {
			if apitest.AttrOf(a, "rel") == "next" {
				path, _, _ = strings.Cut(apitest.AttrOf(a, "href"), "#")
			}
		}
	}
	// The root is the head of the page and not one of its answers.
	sorted, answers := slices.Sorted(slices.Values(shown)), slices.Sorted(slices.Values(all[1:]))
	if !slices.Equal(sorted, answers) || shown[0] != all[1] {
		t.Errorf("the pages show %v", shown)
	}
	last := all[len(all)-1]
	p := apitest.Browse(t, s, "/e/"+last, http.StatusOK)
	if words := p.Words(); !strings.Contains(words, "reply to agent-2 : Reply number 147.") || !strings.Contains(words, "in the conversation The root") {
		t.Errorf("a deep reply: %s", words[:400])
	}
	for _, to := range []string{"/e/" + root, "/e/" + all[len(all)-4]} {
		if !slices.ContainsFunc(p.All("a"), func(a *html.Node) bool { return apitest.AttrOf(a, "href") == to }) {
			t.Errorf("a deep reply has no link to %s", to)
		}
	}
}

// longThread publishes a root and replies to it, each third of them to an earlier reply, among
// other entries.
func longThread(s *apitest.Server, replies int) (root string, all []string) {
	root = s.Publish(map[string]any{"agent": "agent-0", "title": "The root", "body": "It begins here."}).ID
	all = []string{root}
	for i := range replies {
		to := root
		if i%3 == 2 && i > 3 {
			to = all[len(all)-3]
		}
		all = append(all, s.Publish(map[string]any{"agent": "agent-" + strconv.Itoa(i%3), "body": fmt.Sprintf("Reply number %d.", i+1), "reply_to": to}).ID)
		s.Publish(map[string]any{"agent": "elsewhere", "body": "Another subject."})
	}
	return root, all
}

// nodeIDs returns the ids of the entries of a conversation below a node, in their order.
func nodeIDs(n *html.Node) (ids []string) {
	for d := range n.Descendants() {
		if strings.HasPrefix(apitest.AttrOf(d, "class"), "node") {
			ids = append(ids, apitest.AttrOf(d, "id"))
		}
	}
	return ids
}

// readAll returns the ids of all pages of a list.
func readAll(t *testing.T, s *apitest.Server, query string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		list := apitest.Decoded[apitest.List](t, s.Get(query+"&cursor="+url.QueryEscape(cursor)))
		for _, e := range list.Entries {
			ids = append(ids, e.ID)
		}
		if list.NextCursor == nil {
			return ids
		}
		cursor = *list.NextCursor
	}
}

func reversed(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}
