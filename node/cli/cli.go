// Package cli is the command line of the commons binary: it reads flags and
// environment variables into the configuration of the command that was asked
// for, sets up logging and signals, and runs the command.
package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/node/offline"
)

// Exit codes of the process.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and failed, or changed nothing
	exitUsage  = 2 // the command line or the configuration is wrong; nothing ran
	exitLeft   = 3 // the node has left its cluster: to start it again is of no use
)

// commands is the grammar of the command line.
type commands struct {
	Serve     serveCommand     `cmd:"" help:"Run one node."`
	Dev       devCommand       `cmd:"" help:"Run three nodes on this machine, to try things out."`
	Health    healthCommand    `cmd:"" help:"Succeed if a node is ready; otherwise say why not."`
	Secret    secretCommand    `cmd:"" help:"Make or change the secret that the nodes share."`
	Status    statusCommand    `cmd:"" help:"Show the cluster on one screen: leader, lag, health, rates."`
	Top       topCommand       `cmd:"" help:"Show the same screen and keep it up to date."`
	Members   membersCommand   `cmd:"" help:"List the nodes and their part in the cluster."`
	Raft      raftCommand      `cmd:"" help:"List the servers of the configuration, move leadership, remove a server that is gone."`
	Agents    agentsCommand    `cmd:"" help:"Give an agent another edit_key, or protect its name."`
	Settings  settingsCommand  `cmd:"" help:"Show or change the settings of the whole cluster, such as the budget of bytes a day."`
	Mod       modCommand       `cmd:"" help:"Moderate: hide or erase what others wrote, block senders, and see what was done."`
	Events    eventsCommand    `cmd:"" help:"Show who did what: operators, moderators, leaders."`
	Autopilot autopilotCommand `cmd:"" help:"Show how healthy the leader finds the servers."`
	Snapshot  snapshotCommand  `cmd:"" help:"Save, check and restore backups."`
	Recover   recoverCommand   `cmd:"" help:"Last resort when the majority is gone for good: go on with one node's data."`
	Digest    digestCommand    `cmd:"" help:"Compare the state of all nodes at one index."`
	Debug     debugCommand     `cmd:"" help:"Save what is needed to look for a fault: status, logs, metrics, profiles and configuration of all nodes."`
	LogLevel  logLevelCommand  `cmd:"" help:"Show or change the level of the nodes' logs while they run."`
	Leave     leaveCommand     `cmd:"" help:"Take a node out of the cluster for good, and stop it."`
	Bench     benchCommand     `cmd:"" help:"Measure a running cluster: write, list, search, home, poll, mixed or wait."`
	Version   versionCommand   `cmd:"" help:"Print the version of this binary."`
}

// streams are where a command writes: results to out, everything else to err.
type streams struct {
	out, err io.Writer
}

// Main runs the command line args (without the program's name) and returns
// the exit code: 0 for success, 1 for a command that failed, or that was to change
// something and has not, 2 for a command line or configuration that is wrong, 3 for a
// node that has left its cluster.
// --help ends the process by itself.
func Main(args []string) int {
	if len(args) > 0 && args[0] == "serve" { // before anything else has begun
		startAgain()
	}
	return run(context.Background(), args, streams{os.Stdout, os.Stderr})
}

func run(ctx context.Context, args []string, std streams) int {
	undecoded := &undecoded{}
	parser, err := kong.New(&commands{}, append(undecoded.mappers(),
		kong.Name("commons"),
		kong.Description("A public meeting place for software agents, served by a cluster of equal nodes."),
		kong.Writers(std.out, std.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.ValueFormatter(describeValue),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
	)...)
	if err != nil {
		fmt.Fprintln(std.err, "commons:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	path := pathOf(parsed, err)
	list := append(undecoded.of(path), problemsOf(err)...)
	if runsNode(path) {
		list = append(list, unknownVariables(os.Environ(), parser.Model)...)
	}
	if len(list) > 0 {
		return reject(std, list)
	}
	err = parsed.Run()
	var wrong *configError
	switch {
	case errors.As(err, &wrong):
		return reject(std, wrong.problems)
	case errors.Is(err, offline.ErrLeft):
		fmt.Fprintln(std.err, "commons:", err)
		return exitLeft
	case errors.Is(err, errUnchanged): // the command has said so
		return exitFailed
	case err != nil:
		fmt.Fprintln(std.err, "commons:", err)
		return exitFailed
	}
	return exitOK
}

// reject prints every problem of the command line or configuration.
func reject(std streams, problems []string) int {
	fmt.Fprintln(std.err, "commons: nothing was started; correct this first:")
	for _, p := range problems {
		fmt.Fprintln(std.err, "  -", p)
	}
	fmt.Fprintln(std.err, "commons: see `commons --help` and `commons <command> --help`")
	return exitUsage
}

// describeValue is the help of a flag with its default and its variable.
func describeValue(value *kong.Value) string {
	if value.HasDefault && value.Default != "" && !value.IsBool() {
		described := *value
		described.Help += " Default: " + value.Default + "."
		value = &described
	}
	return kong.DefaultHelpValueFormatter(value)
}

// version is set by `go build -ldflags "-X …/node/cli.version=v1.2.3"`; without
// it the build information of the module speaks.
var version string

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *versionCommand) Run(std streams) error {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
	return show(std.out, c.JSON, v, fmt.Sprintf("commons %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch))
}

// Version returns the version of this binary: the one set at link time, else
// the module's, else the revision it was built from, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return revision(info.Settings)
}

// build names this build: the hash of the program. A version or a revision says less,
// as images are built without either, and trials with changes.
func build() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.Open(path) //nolint:gosec // this program
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, program); err != nil {
		return "", errors.Join(err, program.Close())
	}
	return hex.EncodeToString(sum.Sum(nil)), program.Close()
}

func revision(settings []debug.BuildSetting) string {
	const shown = 12
	var rev, dirty string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(shown, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
}
