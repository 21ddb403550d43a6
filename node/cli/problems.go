package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/node/config"
)

// textAsFlags matches a problem and the arguments after it if a text was taken for flags.
var textAsFlags = regexp.MustCompile(`^unknown flag -[^-]|\x00-[^=\x00]* `)

func problemsOf(err error, args []string) []string {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return wrong.Problems
	}
	problem := err.Error()
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	if textAsFlags.MatchString(problem + "\x00" + strings.Join(args, "\x00")) {
		problem += "; a text that begins with a hyphen comes after --, as in: commons post -- '- text'"
	}
	return []string{problem}
}

// pathOf returns the commands in the command line, also if it could not be parsed.
func pathOf(parsed *kong.Context, err error) []*kong.Path {
	if failed, ok := errors.AsType[*kong.ParseError](err); ok {
		parsed = failed.Context
	}
	if parsed == nil {
		return nil
	}
	return parsed.Path
}

// undecoded collects the values that could not be decoded. The parser alone would stop at
// the first one.
type undecoded struct {
	defaults *kong.Registry
	values   []outcome
}

// outcome is the result of the first attempt to decode a value.
type outcome struct {
	value   *kong.Value
	problem string // empty if it was decoded
}

// mappers have u decode values.
func (u *undecoded) mappers() []kong.Option {
	u.defaults = kong.NewRegistry().RegisterDefaults()
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), u),
		kong.KindMapper(reflect.Bool, u),
		kong.KindMapper(reflect.Int, u),
		kong.KindMapper(reflect.Slice, u),
	}
}

// of returns the problems with values of the commands in path. A variable may also belong
// to another command.
func (u *undecoded) of(path []*kong.Path) []string {
	var problems []string
	for _, o := range u.values {
		for _, p := range path {
			for _, flag := range p.Flags {
				if flag.Value == o.value && o.problem != "" {
					problems = append(problems, o.problem)
				}
			}
		}
	}
	return problems
}

// IsBoolFromValue makes a flag of a bool field need no value.
func (u *undecoded) IsBoolFromValue(v reflect.Value) bool { return v.Kind() == reflect.Bool }

// Decode decodes like the default decoder of the target's type, and collects failures instead of
// returning them. A value that cannot be decoded is replaced by the default, so that it
// causes no second problem.
func (u *undecoded) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	decoder := u.defaults.ForType(target.Type())
	problem := ""
	if err := decoder.Decode(ctx, target); err != nil {
		problem = fmt.Sprintf("%s: %v", named(ctx.Value), err)
		if strings.HasSuffix(err.Error(), "(short flag)") { // the parser's words for a value that begins with -
			problem += fmt.Sprintf("; a value below zero, where one is allowed, is given as --%s=-5", ctx.Value.Name)
		}
		if ctx.Value.HasDefault {
			byDefault := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: ctx.Value.Default})
			if err := decoder.Decode(ctx.WithScanner(byDefault), target); err != nil {
				return err
			}
		}
	}
	// A flag is decoded before its variable and its default, and wins over
	// them: problems of those are ignored.
	if !slices.ContainsFunc(u.values, func(o outcome) bool { return o.value == ctx.Value }) {
		u.values = append(u.values, outcome{ctx.Value, problem})
	}
	return nil
}

func named(value *kong.Value) string {
	name := value.ShortSummary()
	if len(value.Tag.Envs) > 0 {
		name += " (or " + strings.Join(value.Tag.Envs, ", ") + ")"
	}
	return name
}

// runsNode reports whether a command line starts a node. Other commands do no harm if a
// setting is missing.
func runsNode(path []*kong.Path) bool {
	return slices.ContainsFunc(path, func(p *kong.Path) bool { return p.Command != nil && p.Command.Name == "serve" })
}
