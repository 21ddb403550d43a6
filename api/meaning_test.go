package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// TestSynonymsAreTaken sends every name of the table, in several spellings, to every
// operation that takes its field.
func TestSynonymsAreTaken(t *testing.T) {
	longtest.SkipShort(t, "sends one request after the other: long, and alike")
	camel := func(name string) string {
		words := strings.Split(name, "_")
		for i := 1; i < len(words); i++ {
			words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
		}
		return strings.Join(words, "")
	}
	sent := 0
	for path, body := range payloads {
		takes := map[string]any{}
		must.Do(t, json.Unmarshal([]byte(body), &takes))
		fields := api.BodyFields()[path]
		for _, synonym := range wire.Synonyms {
			value, given := takes[synonym.Field]
			for _, name := range synonym.Names {
				if !given || slices.Contains(fields, name) {
					continue
				}
				for _, spelled := range []string{name, camel(name), strings.ToUpper(name), strings.ReplaceAll(name, "_", "-")} {
					with := maps.Clone(takes)
					delete(with, synonym.Field)
					with[spelled] = value
					r := startFor(t, path).Post(path, with)
					sent++
					if apitest.NeedsKey(path) && apitest.Worked(path, r) {
						continue
					}
					shows := path == apitest.ReportsPath || strings.Contains(string(r.Body), fmt.Sprint(value)) // the text of a report is not shown
					if r.Status != http.StatusCreated || !shows || strings.Contains(string(r.Body), "ignored") {
						t.Errorf("%s as %s to %s: %d %s", synonym.Field, spelled, path, r.Status, r.Body)
					}
				}
			}
		}
	}
	const fewest = 40
	if sent < fewest {
		t.Errorf("%d names were sent", sent)
	}
}
