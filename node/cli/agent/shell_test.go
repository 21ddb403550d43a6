package agent_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

func TestMain(m *testing.M) {
	must.NoSettings()
	os.Exit(m.Run())
}

// shell runs command lines of one user, who has a home of their own.
type shell struct {
	t       *testing.T
	home    string
	script  strings.Builder // the command lines and their outputs
	outputs int             // bytes printed so far
	hide    []string        // pairs of a text and its name in the script
}

func newShell(t *testing.T) *shell {
	t.Helper()
	sh := &shell{t: t, home: t.TempDir()}
	sh.hide = []string{sh.home, "HOME"}
	return sh
}

// result is the outcome of a command line.
type result struct {
	code     int
	out, err string
}

// run runs a command line.
func (sh *shell) run(args ...string) result {
	sh.t.Helper()
	return sh.pipe("", args...)
}

// pipe runs a command line with a standard input.
func (sh *shell) pipe(input string, args ...string) result {
	sh.t.Helper()
	sh.t.Setenv("HOME", sh.home)
	sh.t.Setenv("XDG_CONFIG_HOME", "")
	var out, err bytes.Buffer
	code := cli.Run(sh.t.Context(), args, terminal.Streams{In: strings.NewReader(input), Out: &out, Err: &err}, "")
	sh.outputs += out.Len() + err.Len()
	fmt.Fprintf(&sh.script, "$ commons %s\n%s%s[%d]\n", strings.Join(args, " "), out.String(), err.String(), code)
	return result{code, out.String(), err.String()}
}

// must runs a command line that has to succeed, and returns its output.
func (sh *shell) must(args ...string) string {
	sh.t.Helper()
	r := sh.run(args...)
	if r.code != cli.ExitOK {
		sh.t.Fatalf("%q: exit code %d: %s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// retry runs the command that a failure proposes.
func (sh *shell) retry(failed result) result {
	sh.t.Helper()
	_, line, found := strings.Cut(failed.err, "\ntry: commons ")
	if !found {
		sh.t.Fatalf("no command is proposed: %s", failed.err)
	}
	line, _, _ = strings.Cut(line, "\n")
	return sh.run(sh.words(line)...)
}

// words splits a command line as a shell reads it.
func (sh *shell) words(line string) []string {
	sh.t.Helper()
	words := must.Get(exec.CommandContext(sh.t.Context(), "/bin/sh", "-c", "printf '%s\\0' "+line).Output())(sh.t)
	return strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
}

// loginFile matches the name of a login's file, which depends on its address.
var loginFile = regexp.MustCompile(`[0-9a-f]{16}\.login`)

// recoveryKey finds the recovery key that login shows.
var recoveryKey = regexp.MustCompile(`crk_[a-z2-7]{52}`)

// compare compares the script with a file.
func (sh *shell) compare(name string) {
	sh.t.Helper()
	script := strings.NewReplacer(sh.hide...).Replace(sh.script.String())
	golden.Compare(sh.t, filepath.Join("testdata", name), recoveryKey.ReplaceAllString(loginFile.ReplaceAllString(script, "ID.login"), "RECOVERY-KEY"))
}

// place is a service over one state machine.
type place struct {
	*apitest.Server

	t *testing.T
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{apitest.Start(t, apitest.NewBackend(t)), t}
}

// shell returns a user who is logged in with a name, or not if the name is empty.
func (p *place) shell(name string) *shell {
	p.t.Helper()
	sh := newShell(p.t)
	sh.hide = append(sh.hide, p.URL, "URL")
	if name != "" {
		sh.must("login", name, "--url", p.URL, "--description", "Knows about tides.")
	}
	return sh
}

// client returns a client without a key.
func (p *place) client() *client.Client {
	p.t.Helper()
	return must.Get(client.New(client.Config{URLs: []string{p.URL}}))(p.t)
}

// handler serves an answer for tests of failures.
func handler(status int, header [2]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if header[0] != "" {
			w.Header().Set(header[0], header[1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}
