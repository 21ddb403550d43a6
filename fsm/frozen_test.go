package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"hash/crc32"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/internal/must"
)

// whatToDo says what is to be done about a change of format 1.
const whatToDo = `Until the first release, -update writes the file. After it, format 1 is frozen: there are logs, states
and backups in it, and programs that know nothing else. What is new comes with a new format: raise command.MaxFormat,
give its number to a new command's row or a method Needs, and let apply look at the format. Nothing that stands in the
golden file is changed. See "A new format" in CONTRIBUTING.md.`

// TestFormat1IsFrozen holds the numbers of format 1, what its commands and rows are
// made of, and how samples of its rows are encoded.
func TestFormat1IsFrozen(t *testing.T) {
	var got bytes.Buffer
	for _, op := range command.Ops() {
		if payload := command.New(op); command.FormatOf(payload) == command.InitialFormat {
			fmt.Fprintf(&got, "command %d %s %s\n", op, op, shapeOf(reflect.TypeOf(payload).Elem(), "cbor"))
		}
	}
	fmt.Fprintf(&got, "batch %x\n", sampleBatch(t))
	fmt.Fprintf(&got, "keyspace %d\n", state.KeyspaceVersion)
	for _, line := range slices.Concat(numbersIn(t, "command"), numbersIn(t, "state", "home", "stats", "outbox", "apply", "view", ".")) {
		fmt.Fprintln(&got, line)
	}
	for _, row := range sampleRows() {
		fmt.Fprintf(&got, "row %s\n", row)
	}
	l := newLog(t)
	l.seed(1)
	_, _, stream := leader(t, l)
	size := binary.LittleEndian.Uint32(stream[8:])
	fmt.Fprintf(&got, "snapshot %q %s\n", stream[:8], keysOf(t, stream[12:12+size]))
	fmt.Fprintf(&got, "snapshot metadata %s\n", shapeOf(reflect.TypeFor[snapshot.Meta](), "json"))

	path := filepath.Join("testdata", "format1.golden")
	frozen, lines := strings.Split(golden.Read(t, path, got.String), "\n"), strings.Split(got.String(), "\n")
	if command.MaxFormat > command.InitialFormat { // later formats may have further numbers
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, numberLine) && !slices.Contains(frozen, line)
		})
	}
	if diff := cmp.Diff(frozen, lines); diff != "" {
		t.Errorf("%s\n%s", whatToDo, diff)
	}
}

// numberLine begins the lines of numbers with a name.
const numberLine = "number "

// numbersIn returns the constants of packages that may stand in bytes: of their own types
// that fit into one, and the spaces of rows. They are sorted by their names in the golden
// file.
func numbersIn(t *testing.T, dirs ...string) (lines []string) {
	t.Helper()
	byName := map[string]string{}
	for _, dir := range dirs {
		maps.Copy(byName, constantsOf(t, dir))
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		lines = append(lines, byName[name])
	}
	return lines
}

// constantsOf returns the lines of one package, by name.
func constantsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	lines := map[string]string{}
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(set, name, nil, parser.SkipObjectResolution))(t)
		parsed = append(parsed, file)
	}
	lenient := types.Config{Error: func(error) {}, IgnoreFuncBodies: true} // without what is imported
	pkg, _ := lenient.Check(dir, set, parsed, nil)                         // that is missed, and no constant needs it
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok {
			continue
		}
		named, own := c.Type().(*types.Named)
		kind, basic := c.Type().Underlying().(*types.Basic)
		switch {
		case !basic:
		case own && kind.Kind() == types.Uint8:
			lines[name] = fmt.Sprintf("%s%s %s %s", numberLine, named.Obj().Name(), name, c.Val().ExactString())
		case strings.HasPrefix(strings.ToLower(name), "space"):
			lines[name] = fmt.Sprintf("%s%s %s", numberLine, name, c.Val().ExactString())
		}
	}
	return lines
}

// laterTag names the format that a field came with: `format:"2"`. Format 1 is without it.
const laterTag = "format"

// shapeOf returns what a value of a type is encoded as: the keys in its tags, and what
// stands under them.
func shapeOf(typ reflect.Type, tag string) string {
	switch typ.Kind() {
	case reflect.Pointer:
		return "*" + shapeOf(typ.Elem(), tag)
	case reflect.Slice:
		return "[]" + shapeOf(typ.Elem(), tag)
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", typ.Len(), shapeOf(typ.Elem(), tag))
	case reflect.Map:
		return "map[" + shapeOf(typ.Key(), tag) + "]" + shapeOf(typ.Elem(), tag)
	case reflect.Struct:
		var fields []string
		for _, f := range reflect.VisibleFields(typ) {
			if f.IsExported() && len(f.Index) == 1 && f.Tag.Get(laterTag) == "" {
				fields = append(fields, strings.TrimSpace(f.Tag.Get(tag)+" "+shapeOf(f.Type, tag)))
			}
		}
		return "{" + strings.Join(fields, "; ") + "}"
	default:
		return typ.Kind().String()
	}
}

// keysOf returns the keys of a JSON object, and of those in it, sorted.
func keysOf(t *testing.T, doc []byte) string {
	t.Helper()
	var keys []string
	for i, part := range strings.Split(string(doc), `"`) {
		if rest := strings.SplitN(string(doc), `"`, i+2); i%2 == 1 && strings.HasPrefix(rest[len(rest)-1], ":") && !slices.Contains(keys, part) {
			keys = append(keys, part)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// sampleBatch returns the bytes of a log entry.
func sampleBatch(t *testing.T) []byte {
	t.Helper()
	data := must.Get(command.EncodeBatch(command.Batch{Stamp: 1_700_000_000_000, Groups: []command.Group{{
		Boot: fsmtest.Boot1, Floor: 2, Open: []uint64{1}, Commands: []command.Command{{Seq: 2, Payload: fsmtest.Post("ada", nil)}, {Seq: 3, Payload: &command.Tick{}}},
	}}}))(t)
	return data
}

// sampleRows returns a row of each kind, with a value in every field.
func sampleRows() []string {
	return []string{
		sample("entry", func(r *state.EntryRow) []byte {
			var p command.Publish
			fill(reflect.ValueOf(&p).Elem(), 1)
			p.Agent, p.Kind, r.Kind, r.Relation = "ada", command.KindMessage, command.KindMessage, command.RelationReply
			return r.Append(nil, &p)
		}),
		sample("counts", func(r *state.LaterCounts) []byte { return state.Encode(r) }),
		sample("successor", func(r *state.EntryRow) []byte {
			r.Relation = command.RelationReply
			return state.Encode(&state.Successors{state.SuccessorOf(r, "ada")})
		}),
		sample("channel", func(r *state.ChannelRow) []byte { return state.Encode(r) }),
		sample("request", func(r *state.RequestRow) []byte { return state.Encode(r) }),
		sample("session", func(r *state.SessionRow) []byte { return state.Encode(r) }),
		sample("answers", func(r *state.Answers) []byte { return state.Encode(r) }),
		sample("job", func(r *state.JobRow) []byte { return state.Encode(r) }),
		sample("senders", func(r *state.EntrySenders) []byte { return state.Encode(r) }),
		sample("writers", func(r *state.NameWriters) []byte { return state.Encode(r) }),
		sample("profile", func(r *state.ProfileRow) []byte { return state.Encode(r) }),
		sample("activity", func(r *home.Activity) []byte { return state.Encode(r) }),
		sample("notes", func(r *home.RecentByAuthor) []byte { return state.Encode(r) }),
		sample("hour", func(r *stats.HourRow) []byte { return state.Encode(r) }),
		sample("fold", func(r *apply.FoldRow) []byte { return state.Encode(r) }),
		sample("outbox", func(r *outbox.Outbox) []byte { return state.Encode(r) }),
		sample("delivery", func(r *outbox.DeliveryRow) []byte { return state.Encode(r) }),
		sample("hidden", func(r *state.HiddenEntry) []byte { return state.Encode(r) }),
		sample("record", func(r *state.Record) []byte { return state.Encode(r) }),
		sample("purge", func(r *state.Purge) []byte { return state.Encode(r) }),
		sample("rule", func(r *state.Rule) []byte { return state.Encode(r) }),
		sample("report", func(r *state.Report) []byte { return state.Encode(r) }),
		sample("names", func(r *state.Names) []byte { return state.Encode(r) }),
		sample("events", func(r *state.EventRow) []byte { return state.Encode(r) }),
		sample("sweep", func(r *state.SweepRow) []byte { return state.Encode(r) }),
		sample("budget", func(r *state.Budget) []byte { return state.Encode(r) }),
		sample("cluster", func(r *state.Cluster) []byte { return state.Encode(r) }),
		sample("head", func(r *state.Head) []byte { return state.Encode(r) }),
		sample("configuration", func(r *state.Configuration) []byte { return state.Encode(r) }),
	}
}

// sample encodes a row each of whose fields has a value of its own.
func sample[Row any](name string, encode func(*Row) []byte) string {
	var row Row
	fill(reflect.ValueOf(&row).Elem(), 1)
	return fmt.Sprintf("%s %x", name, encode(&row))
}

// fill sets a value to a small number, or fills its elements. The fields of a struct have
// numbers that come from their names: a further one does not change the others.
func fill(v reflect.Value, n byte) {
	if !v.CanSet() { // an unexported field
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() //nolint:gosec // of the row that is filled
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n % 128))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n % 128))
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n+1)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n+byte(i)) //nolint:gosec // wraps around
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get(laterTag) == "" {
				fill(v.Field(i), n+byte(crc32.ChecksumIEEE([]byte(f.Name))))
			}
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default: // not a part of a row
	}
}
