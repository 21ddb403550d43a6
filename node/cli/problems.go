package cli

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// configError is a configuration that must not run, with all its problems.
type configError struct {
	problems []string
}

// Error joins the problems, one per line.
func (e *configError) Error() string { return strings.Join(e.problems, "\n") }

// problems collects the values that could not be decoded, where the parser by
// itself stops at the first one.
type problems struct {
	decoded map[*kong.Value]bool
	found   []string
}

func newProblems() *problems { return &problems{decoded: map[*kong.Value]bool{}} }

func (p *problems) reset() {
	p.found = nil
	clear(p.decoded)
}

func (p *problems) add(problem string) { p.found = append(p.found, problem) }

func (p *problems) list() []string { return p.found }

// mappers adds to options decoders that note a problem and go on.
func (p *problems) mappers(options ...kong.Option) []kong.Option {
	defaults := kong.NewRegistry().RegisterDefaults()
	for _, kind := range []reflect.Kind{
		reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Slice,
	} {
		options = append(options, kong.KindMapper(kind, &collecting{p, defaults}))
	}
	return append(options, kong.TypeMapper(reflect.TypeFor[time.Duration](), &collecting{p, defaults}))
}

// collecting decodes like the default decoder of the target's type, and notes
// a failure instead of returning it.
type collecting struct {
	problems *problems
	defaults *kong.Registry
}

// IsBoolFromValue makes a flag of a bool field need no value.
func (c *collecting) IsBoolFromValue(v reflect.Value) bool { return v.Kind() == reflect.Bool }

// Decode implements kong.Mapper.
func (c *collecting) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	// A flag is decoded before its environment variable and its default, and
	// wins over them: what the losers say is no problem.
	first := !c.problems.decoded[ctx.Value]
	c.problems.decoded[ctx.Value] = true
	err := c.defaults.ForType(target.Type()).Decode(ctx, target)
	if err != nil && first {
		name := ctx.Value.ShortSummary()
		if len(ctx.Value.Tag.Envs) > 0 {
			name += " (or " + strings.Join(ctx.Value.Tag.Envs, ", ") + ")"
		}
		c.problems.add(fmt.Sprintf("%s: %v", name, err))
	}
	return nil
}
