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
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
)

// whatToDo says what is to be done about a change of format 1.
const whatToDo = `Format 1 is frozen: there are logs, states and backups in it, and programs that know nothing else.
What is new comes with a new format: raise command.MaxFormat, give what is new a method Needs that names it, and let
apply look at the format. Nothing that stands in the golden file is changed. See "A new format" in CONTRIBUTING.md.`

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
	fmt.Fprintf(&got, "keyspace %d\n", keyspaceVersion)
	for _, line := range slices.Concat(numbersIn(t, "command"), numbersIn(t, ".")) {
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
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	frozen, lines := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
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

// numbersIn returns the constants of a package that may stand in bytes: of its own types
// that fit into one, and the spaces of rows.
func numbersIn(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
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
			lines = append(lines, fmt.Sprintf("%s%s %s %s", numberLine, named.Obj().Name(), name, c.Val().ExactString()))
		case strings.HasPrefix(name, "space"):
			lines = append(lines, fmt.Sprintf("%s%s %s", numberLine, name, c.Val().ExactString()))
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
	data, err := command.EncodeBatch(command.Batch{Stamp: 1_700_000_000_000, Groups: []command.Group{{
		Boot: boot1, Floor: 2, Open: []uint64{1}, Commands: []command.Command{{Seq: 2, Payload: post("ada", nil)}, {Seq: 3, Payload: &command.Tick{}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sampleRows returns a row of each kind, none of whose fields is empty.
func sampleRows() []string {
	return []string{
		sample("entry", func(r *entryRow) []byte {
			var p command.Publish
			fill(reflect.ValueOf(&p).Elem(), 1)
			p.Agent, p.Kind, r.Kind, r.Relation = "ada", command.KindMessage, command.KindMessage, command.RelationReply
			return r.append(nil, &p)
		}),
		sample("counts", func(r *laterCounts) []byte { return r.encode() }),
		sample("successor", func(r *entryRow) []byte {
			r.Relation = command.RelationReply
			return appendSuccessor(nil, r, "ada")
		}),
		sample("channel", func(r *channelRow) []byte { return r.append(nil) }),
		sample("request", func(r *requestRow) []byte { return r.encode() }),
		sample("session", func(r *session) []byte { return r.append(nil) }),
		sample("answer", func(r *command.Result) []byte { return appendResult(nil, *r) }),
		sample("job", func(r *jobRow) []byte { return r.encode() }),
		sample("help", func(r *helpRow) []byte { return r.encode() }),
		sample("sender", func(r *entrySender) []byte { return r.append(nil) }),
		sample("writers", func(r *nameWriters) []byte { return r.append(nil) }),
		sample("profile", func(r *profileRow) []byte { return r.append(nil) }),
		sample("topic", func(r *topic) []byte { return r.append(nil) }),
		sample("notes", func(r *recentByAuthor) []byte { return r.append(nil) }),
		sample("hour", func(r *hourRow) []byte { return r.append(nil) }),
		sample("fold", func(r *foldRow) []byte { return r.append(nil) }),
		sample("outbox", func(r *outbox) []byte { return r.encode() }),
		sample("delivery", func(r *deliveryRow) []byte { return r.encode() }),
		sample("signing keys", func(r *[]SigningKey) []byte { return appendSigningKeys([]byte{}, *r) }),
		sample("hidden", func(r *hiddenEntry) []byte { return r.encode() }),
		sample("record", func(r *Record) []byte { return r.encode() }),
		sample("purge", func(r *Purge) []byte { return r.append(nil) }),
		sample("rule", func(r *Rule) []byte { return r.append(nil) }),
		sample("report", func(r *Report) []byte { return r.encode() }),
		sample("epoch", func(r *SenderEpoch) []byte { return r.append(nil) }),
		sample("events", func(r *eventRow) []byte { return r.append(nil) }),
		sample("sweep", func(r *sweepRow) []byte { return r.append([]byte{}) }),
		sample("budget", func(r *Budget) []byte { return r.append([]byte{}) }),
		sample("cluster", func(r *cluster) []byte { return r.encode() }),
		sample("head", func(r *head) []byte { return r.append(nil) }),
		sample("configuration", func(r *configuration) []byte { return r.append(nil) }),
	}
}

// sample encodes a row each of whose fields has a value of its own.
func sample[Row any](name string, encode func(*Row) []byte) string {
	var row Row
	fill(reflect.ValueOf(&row).Elem(), 1)
	return fmt.Sprintf("%s %x", name, encode(&row))
}

// fill sets a value to a small number, or to what holds it. The fields of a struct have
// numbers that come from their names: a further one changes nothing of the others.
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
	default: // nothing of a row
	}
}
