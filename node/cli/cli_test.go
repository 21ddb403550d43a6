package cli

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

func execute(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	return executeWith(t, "", args...)
}

// executeWith is execute on a machine with the settings file of a node.
func executeWith(t *testing.T, settings string, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), args, terminal.Streams{Out: &stdout, Err: &stderr}, settings)
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
			env:  map[string]string{"COMMONS_HANG_TIMEOUT": "soon", "COMMONS_HTTP_ADDR": "nowhere"},
			args: []string{"serve", "--node-id", "a b", "--heartbeat", "abc", "--write-rate=x"},
			want: []string{
				`--heartbeat (or COMMONS_HEARTBEAT): `, `--write-rate (or COMMONS_WRITE_RATE): `, `--hang-timeout (or COMMONS_HANG_TIMEOUT): `,
				`--node-id: "a b"`, `--http-addr: "nowhere"`,
			},
		},
		"a flag is stronger than a variable": {
			env:    map[string]string{"COMMONS_HANG_TIMEOUT": "soon", "COMMONS_WRITE_RATE": "-5"},
			args:   []string{"serve", "--hang-timeout", "1s", "--node-id", "%"},
			want:   []string{"--node-id", "--write-rate"},
			unsaid: []string{"--hang-timeout"},
		},
		"a value that looks like a flag": {
			args: []string{"serve", "--write-rate", "-1", "--heartbeat", "1s"},
			want: []string{"--write-rate=-5"},
		},
		"unknown flag":                {args: []string{"serve", "--nope"}, want: []string{"--nope"}},
		"no command":                  {want: []string{"expected one of"}},
		"address of the health check": {args: []string{"health", "--http-addr=nowhere"}, want: []string{"--http-addr: "}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			code, out, stderr := execute(t, tc.args...)
			check.Equal(t, code, ExitUsage, "exit code")
			check.Equal(t, out, "", "output")
			check.Equal(t, strings.Count(stderr, "\n  - "), len(tc.want), "problems")
			for _, want := range tc.want {
				check.Contains(t, stderr, want, "stderr")
			}
			for _, no := range tc.unsaid {
				check.Lacks(t, stderr, no, "stderr")
			}
			if t.Failed() {
				t.Log(stderr)
			}
		})
	}
}

func TestVariablesOfOtherCommandsAreNoProblem(t *testing.T) {
	t.Setenv("COMMONS_HANG_TIMEOUT", "soon")
	t.Setenv("COMMONS_BOOTSTRAP_EXPECT", "some")
	code, _, stderr := execute(t, "version")
	check.Equal(t, code, ExitOK, "exit code, with %s", stderr)
}

func TestFlagsReachTheConfiguration(t *testing.T) {
	t.Setenv("COMMONS_JOIN", "a:1,b:2")
	t.Setenv("COMMONS_HEARTBEAT", "700ms")
	t.Setenv("COMMONS_HANG_TIMEOUT", "1m")
	var all commands
	parser := must.Get(kong.New(&all, (&undecoded{}).mappers()...))(t)
	must.Get(parser.Parse([]string{"serve", "--node-id=n7", "--hang-timeout=2m", "--write-rate=0", "--house-agents=x,y"}))(t)
	c := all.Serve.Config
	if c.NodeID != "n7" || strings.Join(c.Join, " ") != "a:1 b:2" || c.Heartbeat != 700*time.Millisecond ||
		c.HangTimeout != 2*time.Minute || c.WriteRate != 0 || len(c.HouseAgents) != 2 || c.HTTPAddr != "127.0.0.1:8080" {
		t.Errorf("%+v", c)
	}
}

func TestDevPassesFlagsOn(t *testing.T) {
	for _, args := range [][]string{
		{"dev", "--http-port=9000", "--", "--heartbeat", "300ms"},
		{"dev", "--http-port=9000", "--", "--heartbeat=300ms"},
	} {
		var all commands
		parser := must.Get(kong.New(&all, (&undecoded{}).mappers()...))(t)
		must.Get(parser.Parse(args))(t)
		if got := strings.Join(all.Dev.ServeFlags, " "); got != strings.Join(args[3:], " ") || all.Dev.HTTPPort != 9000 {
			t.Errorf("%q passes on %q, port %d", args, got, all.Dev.HTTPPort)
		}
	}
}

// output runs the program in a process of its own.
func output(t *testing.T, env string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", env)
	return string(must.Get(cmd.Output())(t))
}

// TestHelpIsGrouped holds that the help lists every command in one of two groups, those for
// agents first.
func TestHelpIsGrouped(t *testing.T) {
	help := output(t, "", "--help")
	agents, operators := strings.Index(help, "\nFor agents:\n  login "), strings.Index(help, "\nFor operators:\n  serve ")
	if agents < 0 || operators < agents || strings.Contains(help, "\nCommands:\n") {
		t.Error(help)
	}
}

// TestCompletion completes a command for a shell, and prints how to turn that on.
func TestCompletion(t *testing.T) {
	if got := output(t, "COMP_LINE=commons jo"); got != "job\njobs\n" && got != "jobs\njob\n" {
		t.Errorf("completed to %q", got)
	}
	check.Equal(t, output(t, "COMP_LINE=commons read --cha"), "--channel\n", "completed to")
	if got := output(t, "", "completion", "-c", "bash"); !strings.HasPrefix(got, "complete ") || !strings.HasSuffix(got, " commons\n") {
		t.Errorf("the code for bash is %q", got)
	}
}

// TestEveryCommandAnswersInJSON holds that scripts can read every command but those that run
// nodes and the one that prints a script.
func TestEveryCommandAnswersInJSON(t *testing.T) {
	parser := must.Get(kong.New(&commands{}, (&undecoded{}).mappers()...))(t)
	for _, leaf := range parser.Model.Leaves(true) {
		has := slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "json" })
		if text := slices.Contains([]string{"serve", "dev", "completion"}, leaf.Name); has == text {
			t.Errorf("%s: --json: %t", leaf.FullPath(), has)
		}
	}
}

// asProgram makes the test binary be the program: what is tested there needs a
// process of its own.
const asProgram = "CLI_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	must.NoSettings()
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
		"COMMONS_KEY_FILE=key":                            "", // of an agent
		"COMMONS_KEY=ck_key":                              "",
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
			if code != ExitUsage || said != (want != "") || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			code, _, stderr = execute(t, "version")
			check.Equal(t, code, ExitOK, "exit code of a command that runs no node, with %s", stderr)
		})
	}
}

// TestComposeVariables: each variable of the compose file is a setting of a node or in
// the list of its own variables.
func TestComposeVariables(t *testing.T) {
	file := must.Get(os.ReadFile("../../docker-compose.cluster.yml"))(t)
	var read []string
	for _, found := range regexp.MustCompile(`\$\{(COMMONS_[A-Z_]+)`).FindAllStringSubmatch(string(file), -1) {
		name := found[1]
		if !strings.Contains(string(file), name+": ${"+name) { // passed on under its own name
			read = append(read, name)
		}
	}
	slices.Sort(read)
	read = slices.Compact(read)
	check.Diff(t, read, composeVariables, "what the compose file reads")
}
