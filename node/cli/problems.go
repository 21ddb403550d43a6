package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/node/config"
)

func problemsOf(err error) []string {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return wrong.Problems
	}
	problem := err.Error()
	if strings.HasPrefix(problem, "unknown flag -") && !strings.HasPrefix(problem, "unknown flag --") {
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
	values []outcome
}

// outcome is the result of the first attempt to decode a value.
type outcome struct {
	value   *kong.Value
	problem string // empty if it was decoded
}

// mappers are decoders that collect problems.
func (u *undecoded) mappers() []kong.Option {
	collect := &collecting{into: u, defaults: kong.NewRegistry().RegisterDefaults()}
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), collect),
		kong.KindMapper(reflect.Bool, collect),
		kong.KindMapper(reflect.Int, collect),
		kong.KindMapper(reflect.Slice, collect),
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

// collecting decodes like the default decoder of the target's type, and collects failures
// instead of returning them.
type collecting struct {
	into     *undecoded
	defaults *kong.Registry
}

// IsBoolFromValue makes a flag of a bool field need no value.
func (c *collecting) IsBoolFromValue(v reflect.Value) bool { return v.Kind() == reflect.Bool }

// Decode implements kong.Mapper. A value that cannot be decoded is replaced by the default,
// so that it causes a single problem.
func (c *collecting) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	decoder := c.defaults.ForType(target.Type())
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
	if !slices.ContainsFunc(c.into.values, func(o outcome) bool { return o.value == ctx.Value }) {
		c.into.values = append(c.into.values, outcome{ctx.Value, problem})
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
