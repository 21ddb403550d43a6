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

	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/node/config"
)

// configError is a configuration that must not run, with all its problems.
type configError struct {
	problems []string
}

func (e *configError) Error() string { return strings.Join(e.problems, "\n") }

// problemsOf takes the error of a parse apart into its problems.
func problemsOf(err error) []string {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return wrong.Problems
	}
	if wrong, ok := errors.AsType[*configError](err); ok {
		return wrong.problems
	}
	return []string{err.Error()}
}

// pathOf returns the commands that the command line names, also where it could
// not be parsed.
func pathOf(parsed *kong.Context, err error) []*kong.Path {
	if failed, ok := errors.AsType[*kong.ParseError](err); ok {
		parsed = failed.Context
	}
	if parsed == nil {
		return nil
	}
	return parsed.Path
}

// undecoded collects the values that could not be decoded, where the parser by
// itself stops at the first one.
type undecoded struct {
	values []outcome
}

// outcome is the result of the first attempt to decode a value.
type outcome struct {
	value   *kong.Value
	problem string // "" when it was decoded
}

// mappers are decoders that note a problem and go on.
func (u *undecoded) mappers() []kong.Option {
	collect := &collecting{into: u, defaults: kong.NewRegistry().RegisterDefaults()}
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), collect),
		kong.KindMapper(reflect.Bool, collect),
		kong.KindMapper(reflect.Int, collect),
		kong.KindMapper(reflect.Slice, collect),
	}
}

// of returns the problems with values of the commands in path; a variable may
// also belong to a command that is not asked for.
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

func (u *undecoded) has(value *kong.Value) bool {
	for _, o := range u.values {
		if o.value == value {
			return true
		}
	}
	return false
}

// collecting decodes like the default decoder of the target's type, and notes
// a failure instead of returning it.
type collecting struct {
	into     *undecoded
	defaults *kong.Registry
}

// IsBoolFromValue makes a flag of a bool field need no value.
func (c *collecting) IsBoolFromValue(v reflect.Value) bool { return v.Kind() == reflect.Bool }

// Decode implements kong.Mapper. A value that cannot be decoded leaves the
// default standing, so that nothing else complains of it.
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
	if !c.into.has(ctx.Value) {
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

func isConfigError(err error) bool {
	_, is := errors.AsType[*configError](err)
	return is
}

// variablePrefix begins the name of every variable that is a setting.
const variablePrefix = "COMMONS_"

// composeVariables are what docker-compose.cluster.yml reads itself. They reach a
// node where an operator has exported them, or passes a whole file of them on.
var composeVariables = []string{
	"COMMONS_BACKUP", "COMMONS_GO_MEMORY", "COMMONS_IMAGE", "COMMONS_MEMORY", "COMMONS_PORT", "COMMONS_SUBNET",
}

// serviceVariable is what Kubernetes sets in every container beside a service
// called commons or commons-…. A variable that ends in _PORT alone holds a URL.
var serviceVariable = regexp.MustCompile(`^COMMONS(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=` +
	`|^COMMONS(_[A-Z0-9_]+)?_PORT=(tcp|udp|sctp)://`)

// runsNode reports whether a command line starts a node. Other commands do no harm
// when a setting is missing.
func runsNode(path []*kong.Path) bool {
	return slices.ContainsFunc(path, func(p *kong.Path) bool { return p.Command != nil && p.Command.Name == "serve" })
}

// unknownVariables returns the problems with variables that look like settings and
// are not: a misspelt variable would be ignored silently, and a node without its
// --join forms a new cluster.
func unknownVariables(environment []string, app *kong.Application) []string {
	known := slices.Concat(variablesOf(app.Node), composeVariables)
	short := make([]string, len(known)) // what is common to all is no likeness
	for i, name := range known {
		short[i] = strings.ToLower(strings.TrimPrefix(name, variablePrefix))
	}
	var problems []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || serviceVariable.MatchString(variable) {
			continue
		}
		problem := name + ": this variable is not a setting"
		if near := text.Nearest(strings.TrimPrefix(name, variablePrefix), short); near != "" {
			problem += fmt.Sprintf("; did you mean %s%s? Correct it or unset it", variablePrefix, strings.ToUpper(near))
		} else {
			problem += "; unset it"
		}
		problems = append(problems, problem)
	}
	slices.Sort(problems)
	return problems
}

// variablesOf returns the variables of a command's flags and of all commands below.
func variablesOf(n *kong.Node) []string {
	var names []string
	for _, flag := range n.Flags {
		names = append(names, flag.Envs...)
	}
	for _, child := range n.Children {
		names = append(names, variablesOf(child)...)
	}
	return names
}
