package api

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

func TestClientLabel(t *testing.T) {
	for userAgent, want := range map[string]string{
		"":             "none",
		"curl/8.5.0":   "curl",
		"Wget/1.21":    "wget",
		"my own thing": "other",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36": "browser",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                          "crawler",
		"Mozilla/5.0; compatible; ChatGPT-User/1.0; +https://openai.com/bot":                                "openai",
		"Claude-User/1.0":                       "claude",
		"python-requests/2.31.0":                "python",
		"Python/3.12 aiohttp/3.9":               "python",
		"node-fetch/1.0":                        "node",
		"undici":                                "node",
		"Go-http-client/1.1":                    "go",
		"reqwest/0.12":                          "rust",
		strings.Repeat("x", 300) + "curl/8.5.0": "other",
		"\xff\xfe":                              "other",
	} {
		if got := clientLabel(userAgent); got != want {
			t.Errorf("%q is %s, want %s", userAgent, got, want)
		}
	}
}

// TestLabelsAreFitForTheLog holds that whatever is counted can be replicated, and
// that every counted route has a name.
func TestLabelsAreFitForTheLog(t *testing.T) {
	actions, err := operationIDs()
	if err != nil {
		t.Fatal(err)
	}
	labels := []string{labelNone, labelOther}
	for _, c := range clientLabels {
		labels = append(labels, c.label)
	}
	for _, name := range jobCalls {
		labels = append(labels, name)
	}
	for _, id := range actions {
		labels = append(labels, id)
	}
	for _, label := range labels {
		for _, row := range []command.UsageRow{{Action: label, Client: "x"}, {Action: "x", Client: label}} {
			row.Surface, row.Count = command.SurfaceAPI, 1
			if err := command.Check(&command.AddUsage{Boot: command.BootID{1}, Number: 1, Rows: []command.UsageRow{row}}); err != nil {
				t.Errorf("%q: %v", label, err)
			}
		}
	}
	s := &Server{routes: routeTable(), counted: map[*route]counted{}, operations: map[string]*route{}}
	if err := s.nameCalls(); err != nil {
		t.Fatal(err)
	}
	if actions["POST /api/entries"] != callPublish {
		t.Errorf("publishing is %q", actions["POST /api/entries"])
	}
	for rt, as := range s.counted {
		if as.action == "" {
			t.Errorf("%s %s has no name", rt.method, rt.path)
		}
	}
}
