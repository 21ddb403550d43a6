package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// TestWritesOfOtherSites checks that a page of another site cannot write in the name of its
// visitors, except by fetch, and that a person can confirm the write.
func TestWritesOfOtherSites(t *testing.T) {
	s := apitest.New(t)
	const form, plain = "application/x-www-form-urlencoded", "text/plain"
	publish := "/api/entries?action=publish&confirm=write&request_id=other-site-1&agent=eve&body=" + url.QueryEscape("Sent by <another> site.")
	fields := url.Values{"agent": {"eve"}, "body": {"Sent by <another> site."}, "request_id": {"other-site-1"}}.Encode()
	for _, test := range []struct{ name, method, path, contentType, body string }{
		{"picture or link", http.MethodGet, publish, "", ""},
		{"form", http.MethodPost, "/api/entries", form, fields},
		{"form of the pages", http.MethodPost, "/publish", form, fields},
		{"report", http.MethodPost, "/report", form, "entry_id=e1&reason=spam&text=Advertisement"},
		{"plain text", http.MethodPost, "/api/entries", plain, `{"agent":"eve","body":"Sent by another site."}`},
		{"tools", http.MethodPost, "/mcp", plain, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{"messages", http.MethodPost, "/a2a", plain, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, mode := range []string{"navigate", "no-cors"} {
				for _, accept := range []string{apitest.BrowserAccept, "*/*"} {
					apitest.Visit(t, s, test.method, test.path, test.body, http.StatusForbidden,
						"Accept", accept, "Content-Type", test.contentType, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", mode)
				}
			}
		})
	}
	list := apitest.Decoded[apitest.List](t, s.Get("/api/entries"))
	check.Empty(t, list.Entries, "entries that other sites have written")
	// Reads are for every site, and writes for scripts of every site.
	apitest.Visit(t, s, http.MethodGet, "/", "", http.StatusOK, "Accept", apitest.BrowserAccept, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	apitest.Visit(t, s, http.MethodPost, "/api/entries", `{"agent":"ada","body":"Sent by a script."}`, http.StatusCreated,
		"Content-Type", "application/json", "Origin", "https://agents.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors")
	for _, test := range []struct{ method, path, body string }{{http.MethodGet, publish, ""}, {http.MethodPost, "/publish", fields}} {
		p := apitest.Visit(t, s, test.method, test.path, test.body, http.StatusForbidden,
			"Accept", apitest.BrowserAccept, "Content-Type", form, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
		if words := p.Words(); !strings.Contains(words, "Did you want to write this?") || !strings.Contains(words, "Sent by <another> site.") {
			t.Errorf("the page says %s", words)
		}
		sent := url.Values{}
		for _, input := range p.All("input") {
			if apitest.AttrOf(input, "type") == "hidden" {
				sent.Set(apitest.AttrOf(input, "name"), apitest.AttrOf(input, "value"))
			}
		}
		sent.Set("request_id", sent.Get("request_id")+test.method)
		confirmed := p.All("form")[1] // behind the search
		apitest.Equal(t, "method", apitest.AttrOf(confirmed, "method"), "post")
		r := apitest.Visit(t, s, http.MethodPost, apitest.AttrOf(confirmed, "action"), sent.Encode(), 0, "Accept", apitest.BrowserAccept, "Content-Type", form, "Origin", s.URL, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate")
		if r.Status != http.StatusCreated && r.Status != http.StatusSeeOther {
			t.Errorf("confirmed: %d %s", r.Status, r.Body)
		}
	}
	list = apitest.Decoded[apitest.List](t, s.Get("/api/entries"))
	apitest.Equal(t, "entries", len(list.Entries), 3)
}

// TestWritesByGetOfPages checks that a link, a picture or a prefetch of any page never writes, and
// that an opened address, a script and a simple client do.
func TestWritesByGetOfPages(t *testing.T) {
	s := apitest.New(t)
	for name, test := range map[string]struct {
		headers []string
		writes  bool
	}{
		"link here":             {[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"}, false},
		"link of a sibling":     {[]string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, false},
		"link elsewhere":        {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, false},
		"frame":                 {[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		"picture":               {[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
		"prefetch":              {[]string{"Sec-Fetch-Site", "none", "Sec-Purpose", "prefetch;prerender"}, false},
		"opened address":        {[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, true},
		"script here":           {[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Referer", s.URL + "/"}, true},
		"script elsewhere":      {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://agents.example"}, true},
		"simple client":         {nil, true},
		"link over plain HTTP":  {[]string{"Referer", s.URL + "/e/e1"}, false},
		"fetch over plain HTTP": {[]string{"Origin", "http://agents.example"}, false},
		"script with a token":   {[]string{"Origin", "http://agents.example", "Authorization", "Bearer of-a-gateway"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/api/entries?action=publish&confirm=write&body=Hello&request_id=" + url.QueryEscape("page-"+strings.ReplaceAll(name, " ", "-"))
			want := http.StatusForbidden
			if test.writes {
				want = http.StatusCreated
			}
			s.Do(http.MethodGet, path, "", test.headers...).Want(t, want)
		})
	}
}
