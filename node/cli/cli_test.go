package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

func execute(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, streams{&stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

func TestEveryProblemIsListed(t *testing.T) {
	for name, tc := range map[string]struct {
		env    map[string]string
		args   []string
		want   []string // parts of the problems, one each
		unsaid []string
	}{
		"values that cannot be read and values that make no sense": {
			env:  map[string]string{"COMMONS_LEASE": "soon", "COMMONS_HTTP_ADDR": "nowhere"},
			args: []string{"serve", "--node-id", "a b", "--heartbeat", "abc", "--write-rate=x"},
			want: []string{
				`--heartbeat (or COMMONS_HEARTBEAT): `, `--write-rate (or COMMONS_WRITE_RATE): `, `--lease (or COMMONS_LEASE): `,
				`--node-id: "a b"`, `--http-addr: "nowhere"`,
			},
		},
		"a flag is stronger than a variable": {
			env:    map[string]string{"COMMONS_LEASE": "soon", "COMMONS_WRITE_RATE": "-5"},
			args:   []string{"serve", "--lease", "100ms", "--node-id", "%"},
			want:   []string{"--node-id", "--write-rate"},
			unsaid: []string{"--lease"},
		},
		"a value that looks like a flag": {
			args: []string{"serve", "--write-rate", "-1", "--claim-ttl", "1s"},
			want: []string{"--write-rate=-5"},
		},
		"options of the bench": {
			args: []string{"bench", "write", "--size=1", "--connections=many", "--url", "http://192.0.2.1,http://127.0.0.1:1"},
			want: []string{"--connections: ", "--size: 1 is not between", "http://192.0.2.1 is not on this machine"},
		},
		"mode of the bench":           {args: []string{"bench", "sleep"}, want: []string{`"sleep"`}},
		"unknown flag":                {args: []string{"serve", "--nope"}, want: []string{"--nope"}},
		"no command":                  {want: []string{"expected one of"}},
		"address of the health check": {args: []string{"health", "--http-addr=nowhere"}, want: []string{"--http-addr: "}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			code, out, stderr := execute(t, tc.args...)
			if code != exitUsage || out != "" {
				t.Errorf("exit code %d, output %q", code, out)
			}
			if n := strings.Count(stderr, "\n  - "); n != len(tc.want) {
				t.Errorf("%d problems, want %d", n, len(tc.want))
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q is missing", want)
				}
			}
			for _, no := range tc.unsaid {
				if strings.Contains(stderr, no) {
					t.Errorf("%q is no problem", no)
				}
			}
			if t.Failed() {
				t.Log(stderr)
			}
		})
	}
}

func TestVariablesOfOtherCommandsAreNoProblem(t *testing.T) {
	t.Setenv("COMMONS_LEASE", "soon")
	t.Setenv("COMMONS_BOOTSTRAP_EXPECT", "some")
	if code, _, stderr := execute(t, "version"); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestFlagsReachTheConfiguration(t *testing.T) {
	t.Setenv("COMMONS_JOIN", "a:1,b:2")
	t.Setenv("COMMONS_ELECTION", "700ms")
	t.Setenv("COMMONS_CLAIM_TTL", "1h")
	var all commands
	parser, err := kong.New(&all, (&undecoded{}).mappers()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve", "--node-id=n7", "--claim-ttl=2h", "--write-rate=0", "--house-agents=x,y"}); err != nil {
		t.Fatal(err)
	}
	c := all.Serve.Config
	if c.NodeID != "n7" || strings.Join(c.Join, " ") != "a:1 b:2" || c.Election != 700*time.Millisecond ||
		c.ClaimTTL != 2*time.Hour || c.WriteRate != 0 || len(c.HouseAgents) != 2 || c.HTTPAddr != "127.0.0.1:8080" {
		t.Errorf("%+v", c)
	}
}

func TestDevPassesFlagsOn(t *testing.T) {
	for _, args := range [][]string{
		{"dev", "--http-port=9000", "--", "--heartbeat", "300ms"},
		{"dev", "--http-port=9000", "--", "--heartbeat=300ms"},
	} {
		var all commands
		parser, err := kong.New(&all, (&undecoded{}).mappers()...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(args); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(all.Dev.serveFlags(), " "); got != strings.Join(args[3:], " ") || all.Dev.HTTPPort != 9000 {
			t.Errorf("%q passes on %q, port %d", args, got, all.Dev.HTTPPort)
		}
	}
}

// TestEveryCommandAnswersInJSON holds that scripts can read every command but those
// that run nodes.
func TestEveryCommandAnswersInJSON(t *testing.T) {
	parser, err := kong.New(&commands{}, (&undecoded{}).mappers()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		has := slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "json" })
		if runs := leaf.Name == "serve" || leaf.Name == "dev"; has == runs {
			t.Errorf("%s: --json: %t", leaf.FullPath(), has)
		}
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		answer := "leader: none\n"
		if r.Header.Get("Accept") == "application/json" {
			answer = `{"ready":true}`
		}
		if _, err := w.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")

	if code, out, stderr := execute(t, "health", "--http-addr", addr); code != exitOK || !strings.Contains(out, "leader: none") {
		t.Errorf("ready: exit code %d, %s%s", code, out, stderr)
	}
	if code, out, stderr := execute(t, "health", "--json", "--http-addr", addr); code != exitOK || out != "{\"ready\":true}\n" {
		t.Errorf("as JSON: exit code %d, %s%s", code, out, stderr)
	}
	t.Setenv("COMMONS_HTTP_ADDR", addr)
	if code, _, stderr := execute(t, "health"); code != exitOK {
		t.Errorf("by variable: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := execute(t, "health", "--url", server.URL+"/"); code != exitOK {
		t.Errorf("by URL: exit code %d, %s", code, stderr)
	}
	status = http.StatusServiceUnavailable
	if code, out, stderr := execute(t, "health"); code != exitFailed || !strings.Contains(out, "leader: none") || !strings.Contains(stderr, "not ready") {
		t.Errorf("not ready: exit code %d, %s%s", code, out, stderr)
	}
	server.Close()
	if code, _, stderr := execute(t, "health"); code != exitFailed || !strings.Contains(stderr, "refused") {
		t.Errorf("gone: exit code %d, %s", code, stderr)
	}
}

// TestModRepeatsACall: where a call was repeated, that it changed nothing is no failure: the
// one before may have.
func TestModRepeatsACall(t *testing.T) {
	calls, fails := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls <= fails {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"matched":0,"changed":0,"resolved":0}`))
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("cmod_mia"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  []string
		fails int
		code  int
	}{
		{[]string{"hide", "e1", "--reason=x"}, 0, exitFailed},
		{[]string{"hide", "e1", "--reason=x"}, 1, exitOK},
		{[]string{"purge", "e1", "--reason=x", "--yes"}, 1, exitOK},
		{[]string{"purge", "e1", "--reason=x"}, 1, exitFailed},
		{[]string{"resolve", "e1", "--reason=x", "--outcome=kept", "--yes"}, 1, exitOK},
	} {
		calls, fails = 0, test.fails
		args := append([]string{"mod"}, test.args...)
		code, out, stderr := execute(t, append(args, "--url", server.URL, "--token-file", token)...)
		if code != test.code || strings.Contains(stderr, "an earlier attempt may have done it") != (code == exitOK) {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, stderr)
		}
	}
}

func TestLocalAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080",
		":8080":          "127.0.0.1:8080",
		"0.0.0.0:80":     "127.0.0.1:80",
		"[::]:80":        "[::1]:80",
		"node-1:80":      "node-1:80",
		"127.0.0.1:":     "",
		"8080":           "",
	} {
		got, err := localAddr(addr)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", addr, got, err)
		}
	}
}

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"json": `{"time"`, "text": "time=", "auto": `{"time"`} {
		var out bytes.Buffer
		logger, err := newLogger(&out, "warn", format)
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("hidden")
		if out.Len() != 0 {
			t.Errorf("%s: %s", format, &out)
		}
		logger.Warn("shown", slog.Int("n", 1))
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %s", format, &out)
		}
	}
	if _, err := newLogger(os.Stderr, "loud", "auto"); err == nil {
		t.Error("a level that is none is accepted")
	}
}

func TestBenchPrintsAReport(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	args := []string{"bench", "write", "--url", server.URL, "--connections=2", "--duration=2s"}
	code, out, stderr := execute(t, args...)
	if code != exitOK || !strings.Contains(out, "requests/s") || !strings.Contains(out, "status 201") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	code, out, stderr = execute(t, append(args, "--json")...)
	if code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := execute(t, "version")
	if code != exitOK || !regexp.MustCompile(`^commons \S+ \(go\S+, \w+/\w+\)\n$`).MatchString(out) {
		t.Errorf("exit code %d: %q", code, out)
	}
	code, out, _ = execute(t, "version", "--json")
	if code != exitOK || !json.Valid([]byte(out)) || !strings.Contains(out, `"version": "`) {
		t.Errorf("exit code %d: %q", code, out)
	}
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	if got := revision(settings); got != "devel-0123456789ab+dirty" {
		t.Error(got)
	}
	if got := revision(nil); got != "devel" {
		t.Error(got)
	}
}

// asProgram makes the test binary be the program: what is tested there needs a
// process of its own.
const asProgram = "CLI_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	// The settings of whoever runs the tests are none of theirs.
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, variablePrefix) {
			if err := os.Unsetenv(name); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

func TestUnknownVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"COMMONS_JION=a:1":                                "did you mean COMMONS_JOIN?",
		"COMMONS_BOOTSTRAP=3":                             "did you mean COMMONS_BOOTSTRAP_EXPECT?",
		"COMMONS_SECRETFILE=x":                            "did you mean COMMONS_SECRET_FILE?",
		"COMMONS_HTTP_PORT=8080":                          "did you mean COMMONS_",
		"COMMONS_ZZZZZZZZZZZZZZZZ=":                       "unset it",
		"COMMONS_HEALTH_URL=http://127.0.0.1:1":           "", // of another command
		"COMMONS_IMAGE=commons:local":                     "", // of the compose file
		"COMMONS_PORT=127.0.0.1:8080":                     "",
		"COMMONS_PORT=tcp://10.0.0.1:80":                  "", // of Kubernetes
		"COMMONS_PORT_8080_TCP_ADDR=10.0.0.1":             "",
		"COMMONS_SERVICE_HOST=10.0.0.1":                   "",
		"COMMONS_HTTP_SERVICE_PORT_WEB=80":                "",
		"COMMONS_HTTP_PORT=tcp://10.0.0.1:80":             "",
		"COMMONS_PEERS_PORT_7946_UDP=udp://10.0.0.1:7946": "",
		"COMMON_JOIN=a:1":                                 "",
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
			// A problem of its own keeps the command from starting a node.
			code, _, stderr := execute(t, "serve", "--node-id", "%")
			said := strings.Contains(stderr, name+": this variable is not a setting")
			if code != exitUsage || said != (want != "") || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if code, _, stderr := execute(t, "version"); code != exitOK {
				t.Errorf("a command that runs no node ends with %d: %s", code, stderr)
			}
		})
	}
}

// TestComposeVariables: what the compose file reads is either a setting of a node
// or in the list of what it needs itself.
func TestComposeVariables(t *testing.T) {
	file, err := os.ReadFile("../../docker-compose.cluster.yml")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, found := range regexp.MustCompile(`\$\{(COMMONS_[A-Z_]+)`).FindAllStringSubmatch(string(file), -1) {
		name := found[1]
		if !strings.Contains(string(file), name+": ${"+name) { // passed on under its own name
			read = append(read, name)
		}
	}
	slices.Sort(read)
	if read = slices.Compact(read); !slices.Equal(read, composeVariables) {
		t.Errorf("the compose file reads %v, listed are %v", read, composeVariables)
	}
}
