package page_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/internal/check"
)

// TestPagesTakeParameters checks every page with a list and every parameter of its list: the page
// passes it on, and shows the same as the list.
func TestPagesTakeParameters(t *testing.T) {
	s := apitest.New(t)
	first := s.Publish(map[string]any{"agent": "Ada", "title": "Tides of the sea", "body": "When is high water?", "channel": "logs", "tags": []string{"sea"}})
	s.Publish(map[string]any{"agent": "Lin", "body": "At noon, I think.", "reply_to": first.ID})
	s.Publish(map[string]any{"agent": "Ada", "title": "A guide to tides", "body": "Water follows the moon.", "kind": "knowledge", "channel": "logs"})
	s.Publish(map[string]any{"agent": "Lin", "body": "Hello to all."})
	s.Post("/api/agents", map[string]any{"id": "Ada", "description": "Knows the water."})
	var job struct{ Job apitest.Entry }
	for _, agent := range []string{"Ada", "Lin"} {
		s.Post("/api/jobs", map[string]any{"agent": agent, "title": "Count the water of " + agent, "body": "One by one, please.", "tags": []string{"sea"}}).Decode(t, &job)
		s.Post("/api/human-requests", map[string]any{"agent": agent, "goal": "Read the water for " + agent, "requested_action": "Say what it says."})
	}
	s.Post("/api/jobs", map[string]any{"agent": "Ada", "action": "claim", "job_id": job.Job.ID})
	values := map[string]string{
		"kind": "knowledge", "channel": "logs", "agent": "Ada", "for": "Ada", "since": "-1d", "q": "water", "mode": "any", "reply_to": first.ID, "thread": first.ID,
		"tag": "sea", "unanswered": "1", "order": "oldest", "limit": "1", "consistency": "strong", "min_index": "1", "claimed_by": "Ada", "sort": "new",
	}
	statuses := map[string]string{"listJobs": "claimed", "listHumanRequests": "answered"}
	// Parameters that need another one.
	with := map[string]string{"mode": "&q=water", "order": "&thread=" + first.ID, "cursor": "&limit=1"}
	apart := []string{"format", "brief"} // they are of other answers than a page
	lists := map[string]string{"/?sort=active": "listThreads", "/?list=entries": "listEntries", "/c/logs?list=entries": "listEntries", "/a/Ada": "listEntries", "/search": "listEntries", "/jobs": "listJobs", "/human?status=all": "listHumanRequests", "/agents": "listAgents"}
	params := map[string][]string{}
	paths := map[string]string{}
	for _, o := range resource.Operations() {
		params[o.ID], paths[o.ID] = o.Params, o.Path
	}
	fixed := map[string]string{"/?sort=active": "sort=active&", "/human?status=all": "status=all&", "/c/logs?list=entries": "channel=logs&", "/a/Ada": "agent=Ada&"}
	for page, operation := range lists {
		for _, param := range params[operation] {
			if slices.Contains(apart, param) || strings.HasPrefix(fixed[page], param+"=") || param == "unanswered" && operation == "listThreads" { // which has no order by activity
				continue
			}
			value := values[param]
			switch param {
			case "status":
				value = statuses[operation]
			case "cursor":
				var list apitest.List
				s.Get(paths[operation]+"?"+fixed[page]+"limit=1").Decode(t, &list)
				if list.NextCursor == nil {
					continue // one page
				}
				value = *list.NextCursor
			}
			query := param + "=" + url.QueryEscape(value) + with[param]
			t.Run(page+"?"+param, func(t *testing.T) {
				separator := "?"
				if strings.Contains(page, separator) {
					separator = "&"
				}
				p := apitest.Browse(t, s, page+separator+query, http.StatusOK)
				var list struct {
					Entries, Threads, Jobs, Requests, Agents []apitest.Entry
					Notes                                    []string
				}
				s.Get(paths[operation]+"?"+fixed[page]+query).Decode(t, &list)
				var want, got []string
				for _, e := range slices.Concat(list.Entries, list.Threads, list.Jobs, list.Requests, list.Agents) {
					want = append(want, e.ID)
				}
				for _, h := range p.All("h2") {
					for c := range h.ChildNodes() {
						if to := apitest.AttrOf(c, "href"); h.Parent.Data == "li" && (strings.HasPrefix(to, "/e/") || strings.HasPrefix(to, "/a/")) {
							got = append(got, to[len("/e/"):])
						}
					}
				}
				check.Diff(t, got, want, "%s?%s: what it shows, beside the list with %v,", page, query, list.Notes)
			})
		}
	}
}
