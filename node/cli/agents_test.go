package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestKeyIsReset(t *testing.T) {
	c := nodetest.New(t, 1)
	register := func(body map[string]string) int {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Nodes[0].URL()+"/api/agents", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	if status := register(map[string]string{"id": "Ada", "description": "Loses her keys."}); status != http.StatusCreated {
		t.Fatalf("registration: status %d", status)
	}
	code, out, stderr := execute(t, "agents", "reset-key", "ada", "--json", "--cluster-addr", c.Nodes[0].ClusterAddr())
	var answer admin.KeyAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for key, want := range map[string]int{answer.EditKey: http.StatusCreated, answer.EditKey + "x": http.StatusForbidden} {
		if status := register(map[string]string{"id": "ada", "note": "Found " + key[len(key)-1:], "edit_key": key}); status != want {
			t.Errorf("a change with the key %q: status %d, want %d", key, status, want)
		}
	}
	if c.Nodes[0].Logged(answer.EditKey) {
		t.Error("the key is in the log")
	}
	code, out, _ = execute(t, "agents", "reset-key", "ada", "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != exitOK || !strings.Contains(out, "the edit_key of ada is now ck_") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
