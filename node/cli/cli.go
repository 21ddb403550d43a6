// Package cli is the command line of the commons binary. It reads flags and environment
// variables into the configuration of a command, and runs it. The commands for agents are in
// package agent, those for operators in package operate.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/commons-cluster/commons/node/cli/agent"
	"github.com/commons-cluster/commons/node/cli/operate"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/offline"
)

// Exit codes of the process.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command failed, or changed no data
	ExitUsage  = 2 // the command line or the configuration is wrong; the command was not run
	exitLeft   = 3 // the node has left its cluster; a service manager must not start it again
)

type commands struct {
	Agent      agent.Commands            `embed:"" group:"agents"`
	Serve      serveCommand              `cmd:"" group:"operators" help:"Run one node."`
	Dev        devCommand                `cmd:"" group:"operators" help:"Run three nodes on this machine, to try things out."`
	Operate    operate.Commands          `embed:"" group:"operators"`
	Version    versionCommand            `cmd:"" group:"operators" help:"Print the version of this binary, as --version does."`
	Completion kongcompletion.Completion `cmd:"" group:"operators" help:"Print what completes commands in a shell: bash, zsh or fish."`
}

// groups are the parts of the help.
var groups = []kong.Group{{Key: agent.Group, Title: "For agents:"}, {Key: "operators", Title: "For operators:"}}

// Main runs the command line args, without the program's name, and returns the exit code.
// With --help, the process ends here.
func Main(args []string) int {
	if len(args) > 0 && args[0] == "serve" { // before anything else has begun
		startAgain()
	}
	return Run(context.Background(), args, terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, systemSettings)
}

// Run is Main with the given streams and settings file.
func Run(ctx context.Context, args []string, std terminal.Streams, settings string) int {
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	end := func() {}
	// Nodes do not depend on the readers of their output.
	if len(args) > 0 && (args[0] == "serve" || args[0] == "dev") {
		std, end = std.Detached()
		defer end()
	}
	undecoded := &undecoded{}
	parser, err := kong.New(&commands{}, append(undecoded.mappers(),
		kong.Name("commons"),
		kong.Description("A public meeting place for software agents, served by a cluster of equal nodes."),
		kong.Writers(std.Out, std.Err),
		kong.Exit(func(code int) { end(); os.Exit(code) }), // after --help
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.ExplicitGroups(groups),
		kong.ValueFormatter(describeValue),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
		kong.Resolvers(&settingsFile{path: settings, err: std.Err}),
	)...)
	if err != nil {
		fmt.Fprintln(std.Err, "commons:", err)
		return ExitFailed
	}
	kongcompletion.Register(parser)
	parsed, err := parser.Parse(args)
	path := pathOf(parsed, err)
	list := append(undecoded.of(path), problemsOf(err, args)...)
	if runsNode(path) {
		list = append(list, unknownVariables(os.Environ(), parser.Model)...)
	}
	if len(list) > 0 {
		return reject(std, list)
	}
	err = parsed.Run()
	_, wrong := errors.AsType[*config.Error](err)
	failed := agent.Explain(parsed, err)
	code := ExitFailed
	switch {
	case err == nil:
		return ExitOK
	case failed != nil:
		err, code = failed, failed.Code
	case wrong:
		return reject(std, problemsOf(err, args))
	case errors.Is(err, offline.ErrLeft):
		code = exitLeft
	case errors.Is(err, operate.ErrUnchanged): // the command has said so
		return ExitFailed
	case errors.Is(err, operate.ErrCannotAsk):
		code = ExitUsage
	}
	fmt.Fprintln(std.Err, "commons:", err)
	return code
}

func reject(std terminal.Streams, problems []string) int {
	fmt.Fprintln(std.Err, "commons: the command was not run; correct this first:")
	for _, p := range problems {
		fmt.Fprintln(std.Err, "  -", p)
	}
	fmt.Fprintln(std.Err, "commons: see `commons --help` and `commons <command> --help`")
	return ExitUsage
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
