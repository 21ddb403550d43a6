package push_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/push"
)

// verifierCase is the input of a verifier, as JSON.
type verifierCase struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"` // by lower-case name
	Body    []byte            `json:"body"`
}

// verifiers are the languages of the verifiers of /docs/verify and /docs/push: the name of the
// file that the text of one of them goes to, and a program around it that reads cases and writes
// true or false for each.
var verifiers = []struct {
	language, file  string
	edit            func(text string) string
	program, around string
	run             []string
	needs           [][]string // commands that must succeed; else the language is not here
}{
	{
		language: "go", file: "verify.go",
		edit:    func(text string) string { return strings.Replace(text, "package hook", "package main", 1) },
		program: "main.go", run: []string{"go", "run", "verify.go", "main.go"},
		around: `package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

func main() {
	var cases []struct {
		Secret  string
		Headers map[string]string
		Body    []byte
	}
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	for _, c := range cases {
		header := http.Header{}
		for name, value := range c.Headers {
			header.Set(name, value)
		}
		fmt.Println(Verify(c.Secret, header, c.Body))
	}
}
`,
	},
	{
		language: "python", file: "hook.py", program: "main.py", run: []string{"python3", "main.py"},
		needs: [][]string{{"python3", "--version"}},
		around: `import base64, json, sys
from hook import verify

for c in json.load(sys.stdin):
    print(str(verify(c["secret"], c["headers"], base64.b64decode(c["body"]))).lower())
`,
	},
	{
		language: "js", file: "hook.mjs", program: "main.mjs", run: []string{"node", "main.mjs"},
		needs: [][]string{{"node", "--version"}},
		around: `import { readFileSync } from "node:fs";
import { verify } from "./hook.mjs";

for (const c of JSON.parse(readFileSync(0, "utf8"))) {
  console.log(verify(c.secret, c.headers, Buffer.from(c.body, "base64")));
}
`,
	},
}

// TestVerifiers runs the verifiers that the pages show, on an event as it is sent, and on
// forged ones.
func TestVerifiers(t *testing.T) {
	page := must.Get(os.ReadFile("../../api/docs/verify.md"))(t)
	page = append(page, must.Get(os.ReadFile("../../api/docs/push.md"))(t)...)
	cases, want := verifierCases(t)
	input := must.Get(json.Marshal(cases))(t)
	for _, v := range verifiers {
		t.Run(v.language, func(t *testing.T) {
			t.Parallel()
			_, text, found := strings.Cut(string(page), "\n```"+v.language+"\n")
			text, _, ended := strings.Cut(text, "\n```\n")
			if !found || !ended {
				t.Fatal("the page shows no verifier")
			}
			for _, need := range v.needs {
				if out, err := exec.CommandContext(t.Context(), need[0], need[1:]...).CombinedOutput(); err != nil {
					must.Equal(t, os.Getenv("CI"), "", "CI needs this language: %v: %v\n%s", need, err, out)
					t.Skipf("%v: %v\n%s", need, err, out)
				}
			}
			if v.edit != nil {
				text = v.edit(text)
			}
			dir := t.TempDir()
			for name, content := range map[string]string{v.file: text + "\n", v.program: v.around} {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			cmd := exec.CommandContext(t.Context(), v.run[0], v.run[1:]...)
			cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
			out, err := cmd.CombinedOutput()
			if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
				t.Errorf("%v: %s, want %s", err, out, want)
			}
		})
	}
}

// verifierCases returns events and what a verifier has to say of each.
func verifierCases(t *testing.T) (cases []verifierCase, want string) {
	t.Helper()
	secret, other := []byte("a secret of 24 bytes or more"), []byte("another one of 24 bytes or more")
	body := []byte(`{"type":"common.reply","agent":"é <&>"}`)
	send := func(by []byte) verifierCase {
		g := newGround(t, status(http.StatusOK))
		must.Equal(t, g.client.Send(t.Context(), g.url, push.Message{ID: "w1-2-3", Body: body, Secret: by}).Reason, "", "reason")
		got := g.receiver.Received()[0]
		c := verifierCase{Secret: shown(secret), Headers: map[string]string{}, Body: got.Body}
		for name := range got.Header {
			c.Headers[strings.ToLower(name)] = got.Header.Get(name)
		}
		return c
	}
	var words []string
	add := func(c verifierCase, good bool) {
		cases = append(cases, c)
		words = append(words, strconv.FormatBool(good))
	}
	add(send(secret), true)
	add(send(other), false)
	add(send(nil), false) // as the check is sent
	changed := send(secret)
	changed.Body = append(changed.Body, ' ')
	add(changed, false)
	renamed := send(secret)
	renamed.Headers["webhook-id"] = "w1-2-4"
	add(renamed, false)
	old := send(secret)
	at := time.Now().Add(-10 * time.Minute)
	old.Headers["webhook-timestamp"] = strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "w1-2-3.%s.%s", old.Headers["webhook-timestamp"], old.Body)
	old.Headers["webhook-signature"] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	add(old, false)
	addMalformed(send(secret), add)
	return cases, strings.Join(words, " ")
}

// addMalformed adds what strangers may send in place of a good event, and what
// Standard Webhooks allows beside our signature.
func addMalformed(good verifierCase, add func(verifierCase, bool)) {
	with := func(header, value string) verifierCase {
		c := good
		c.Headers = maps.Clone(good.Headers)
		c.Headers[header] = value
		return c
	}
	without := func(header string) verifierCase {
		c := with(header, "")
		delete(c.Headers, header)
		return c
	}
	signature := good.Headers["webhook-signature"]
	bare := strings.TrimPrefix(signature, "v1,")
	for _, header := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		add(with(header, ""), false)
		add(without(header), false)
	}
	for _, timestamp := range []string{"soon", "NaN", "1e9", "-1", "99999999999999999999", strings.Repeat("9", 5000)} {
		add(with("webhook-timestamp", timestamp), false)
	}
	for _, other := range []string{"v1,", "v1,!!!", "v1,AAAA", "v1,A", "v1a,AAAA", "v2,é", "junk", "v1a," + bare} {
		add(with("webhook-signature", other), false)
		add(with("webhook-signature", other+" "+signature), true)
		add(with("webhook-signature", signature+" "+other), true)
	}
	add(with("webhook-signature", bare), false)
	for _, other := range []string{"whsec_!!!", "whsec_AAAA", good.Secret[:len(good.Secret)/2]} {
		c := good
		c.Secret = other
		add(c, false)
	}
}

// shown is a secret as its agent gets it.
func shown(secret []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(secret) }
