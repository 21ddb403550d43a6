// Package cli is the command line of the commons binary. It reads flags and environment
// variables into the configuration of a command, and runs it. The commands for operators
// are in package operate.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"

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
	Serve            serveCommand `cmd:"" help:"Run one node."`
	Dev              devCommand   `cmd:"" help:"Run three nodes on this machine, to try things out."`
	operate.Commands `embed:""`
	Bench            benchCommand   `cmd:"" help:"Measure a running cluster: write, list, search, home, poll, mixed or wait."`
	Version          versionCommand `cmd:"" help:"Print the version of this binary, as --version does."`
}

// Main runs the command line args, without the program's name, and returns the exit code.
// With --help, the process ends here.
func Main(args []string) int {
	if len(args) > 0 && args[0] == "serve" { // before anything else has begun
		startAgain()
	}
	return Run(context.Background(), args, terminal.Streams{Out: os.Stdout, Err: os.Stderr}, systemSettings)
}

// Run is Main with the given streams and settings file.
func Run(ctx context.Context, args []string, std terminal.Streams, settings string) int {
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	undecoded := &undecoded{}
	parser, err := kong.New(&commands{}, append(undecoded.mappers(),
		kong.Name("commons"),
		kong.Description("A public meeting place for software agents, served by a cluster of equal nodes."),
		kong.Writers(std.Out, std.Err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.ValueFormatter(describeValue),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
		kong.Resolvers(&settingsFile{path: settings, err: std.Err}),
	)...)
	if err != nil {
		fmt.Fprintln(std.Err, "commons:", err)
		return ExitFailed
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
	_, wrong := errors.AsType[*config.Error](err)
	switch {
	case wrong:
		return reject(std, problemsOf(err))
	case errors.Is(err, offline.ErrLeft):
		fmt.Fprintln(std.Err, "commons:", err)
		return exitLeft
	case errors.Is(err, operate.ErrUnchanged): // the command has said so
		return ExitFailed
	case errors.Is(err, operate.ErrCannotAsk):
		fmt.Fprintln(std.Err, "commons:", err)
		return ExitUsage
	case err != nil:
		fmt.Fprintln(std.Err, "commons:", err)
		return ExitFailed
	}
	return ExitOK
}

func reject(std terminal.Streams, problems []string) int {
	fmt.Fprintln(std.Err, "commons: nothing was started; correct this first:")
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
