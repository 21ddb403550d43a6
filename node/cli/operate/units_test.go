package operate

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/offline"
)

// Names of what is a duration, and of what only sounds like it.
var (
	soundsLikeTime = regexp.MustCompile(`(?i:second|sec$|millis|micros|nanos|duration|uptime|latency|elapsed|took|stale|contact|timeout)|Ms$`)
	isRate         = regexp.MustCompile(`PerSec(ond)?$`)
)

// TestTimesInJSONAreMilliseconds walks the types of everything that is printed as
// JSON: a duration is a number of milliseconds, and its name ends in Ms; an instant
// is milliseconds since the epoch.
func TestTimesInJSONAreMilliseconds(t *testing.T) {
	seen, found := map[reflect.Type]bool{}, 0
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(path, of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[of] {
			return
		}
		seen[of] = true
		if of.Implements(reflect.TypeFor[json.Marshaler]()) {
			if text, err := json.Marshal(reflect.Zero(of).Interface()); err != nil || text[0] == '"' {
				t.Errorf("%s is %s, %v: an instant is a number, milliseconds since the epoch", path, text, err)
			}
			return
		}
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			if field.Type == reflect.TypeFor[time.Duration]() {
				t.Errorf("%s.%s is a time.Duration: nanoseconds in JSON", path, field.Name)
			}
			if soundsLikeTime.MatchString(name) && !isRate.MatchString(name) {
				found++
				if !strings.HasSuffix(name, "Ms") {
					t.Errorf("%s.%s: a duration is a number of milliseconds, and its name ends in Ms", path, name)
				}
			}
			walk(path+"."+name, field.Type)
		}
	}
	for name, of := range map[string]reflect.Type{
		"status": reflect.TypeFor[overview](), "members": reflect.TypeFor[admin.ClusterReport](),
		"list-peers": reflect.TypeFor[peer](), "digest": reflect.TypeFor[admin.Comparison](),
		"save": reflect.TypeFor[backup.Report](), "inspect": reflect.TypeFor[inspected](), "restore": reflect.TypeFor[offline.Founded](),
		"check": reflect.TypeFor[tried](), "rotate": reflect.TypeFor[rotationNews](), "/status": reflect.TypeFor[op.Status](), admin.PathStatus: reflect.TypeFor[admin.Status](),
	} {
		walk(name, of)
	}
	if found < 10 {
		t.Errorf("only %d times were found", found)
	}
}
