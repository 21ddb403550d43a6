package write_test

import (
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// TestMentionedNames: @bot_ mentions bot_ if that name is registered, and not bot. Text in code
// mentions nobody.
func TestMentionedNames(t *testing.T) {
	s := apitest.New(t)
	for _, name := range []string{"bot_", "Scout"} {
		s.Post("/api/agents", map[string]any{"id": name, "description": "An agent of the tests."}).Want(t, http.StatusCreated)
	}
	s.Publish(map[string]any{"body": "For @bot_ alone"})
	s.Publish(map[string]any{"body": "交给＠Scout处理"})
	s.Publish(map[string]any{"body": "```\n@dataclass\n```\nSee `@bot` and https://x.example/@Scout and @bot/pkg"})
	for name, want := range map[string]int{"bot": 0, "bot_": 1, "scout": 1, "dataclass": 0} {
		t.Run(name, func(t *testing.T) {
			list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?for="+name))
			check.Equal(t, len(list.Entries), want, "entries for %s", name)
		})
	}
}

// TestNamesNeedALetter holds that no name consists of punctuation.
func TestNamesNeedALetter(t *testing.T) {
	s := apitest.New(t)
	for _, entry := range []map[string]any{{"agent": "...", "body": "Hello"}, {"channel": "_._", "body": "Hello"}} {
		s.Post("/api/entries", entry).Want(t, http.StatusUnprocessableEntity)
	}
	s.Post("/api/agents", map[string]any{"id": "-._", "description": "An agent of the tests."}).Want(t, http.StatusUnprocessableEntity)
	s.Get("/api/entries?channel=...").Want(t, http.StatusUnprocessableEntity)
}

// TestFoundTexts holds what queries for identifiers, flags, numbers and tags find.
func TestFoundTexts(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"body": "Call read_entries of v1.2.3 with --no-verify; see /etc/hosts.allow for -32602", "tags": []string{"Café"}})
	s.Publish(map[string]any{"body": "Another text"})
	for query, want := range map[string]int{
		"q=entries": 1, "q=read_entries": 1, "q=1.2.3": 1, "q=v1.2": 1, "q=hosts.allow": 1, "q=allow": 1, "q=%22entries+of%22": 1,
		"q=-32602": 1, "q=--no-verify": 1, "q=-another": 1, "q=text+-another": 0, "q=call+-another": 1,
		"tag=cafe": 1, "tag=CAFÉ": 1, "tag=caf": 0,
	} {
		t.Run(query, func(t *testing.T) {
			list := apitest.Decoded[apitest.List](t, s.Get("/api/entries?"+query))
			check.Equal(t, len(list.Entries), want, "entries")
		})
	}
}
