package kubernetes

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The modules that the schemas are made of. Both carry what a cluster's API server checks.
const (
	kubernetesModule = "k8s.io/kubernetes@v1.37.2"
	monitoringModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// kinds are the names of the schemas, as kubeconform looks for them, and the definitions.
var kinds = map[string]string{
	"namespace-v1":                  "io.k8s.api.core.v1.Namespace",
	"configmap-v1":                  "io.k8s.api.core.v1.ConfigMap",
	"service-v1":                    "io.k8s.api.core.v1.Service",
	"statefulset-apps-v1":           "io.k8s.api.apps.v1.StatefulSet",
	"poddisruptionbudget-policy-v1": "io.k8s.api.policy.v1.PodDisruptionBudget",
	"networkpolicy-networking-v1":   "io.k8s.api.networking.v1.NetworkPolicy",
	"job-batch-v1":                  "io.k8s.api.batch.v1.Job",
	"persistentvolumeclaim-v1":      "io.k8s.api.core.v1.PersistentVolumeClaim",
	"servicemonitor-monitoring-v1":  "monitoring.coreos.com_servicemonitors",
	"prometheusrule-monitoring-v1":  "monitoring.coreos.com_prometheusrules",
}

var update = flag.Bool("update", false, "write the schemas and the rules again")

// object is a part of a schema.
type object = map[string]any

// TestSchemas writes the schemas: the definitions that the kinds reach, without descriptions,
// and closed, so that an unknown field is an error.
func TestSchemas(t *testing.T) {
	if !*update {
		t.Skip("writes the schemas with -update")
	}
	var swagger struct{ Definitions map[string]object }
	read(t, filepath.Join(download(t, kubernetesModule), "api", "openapi-spec", "swagger.json"), &swagger)
	definitions := map[string]any{}
	var reach func(name string)
	reach = func(name string) {
		if definitions[name] != nil {
			return
		}
		definition := swagger.Definitions[name]
		if definition == nil {
			var crd struct {
				Spec struct {
					Versions []struct {
						Schema struct {
							OpenAPIV3Schema object `json:"openAPIV3Schema"`
						}
					}
				}
			}
			read(t, filepath.Join(download(t, monitoringModule), "example", "prometheus-operator-crd", name+".yaml"), &crd)
			definition = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
		definitions[name] = definition
		for _, ref := range closed(definition) {
			reach(ref)
		}
	}
	for file, name := range kinds {
		reach(name)
		write(t, file+".json", object{"$ref": "definitions.json#/definitions/" + name})
	}
	write(t, "definitions.json", object{"definitions": definitions})
}

// closed changes a schema of OpenAPI to a JSON schema, and returns the definitions that it
// refers to.
func closed(schema any) (refs []string) {
	if list, is := schema.([]any); is {
		for _, one := range list {
			refs = append(refs, closed(one)...)
		}
		return refs
	}
	s, is := schema.(object)
	if !is {
		return nil
	}
	properties, hasProperties := s["properties"].(object)
	either := s["format"] == "int-or-string" || s["x-kubernetes-int-or-string"] == true
	_, open := s["x-kubernetes-preserve-unknown-fields"]
	ref, _ := s["$ref"].(string)
	for key := range s {
		if key == "description" || key == "format" || key == "default" || strings.HasPrefix(key, "x-kubernetes-") {
			delete(s, key)
		}
	}
	switch {
	case ref != "":
		refs = append(refs, strings.TrimPrefix(ref, "#/definitions/"))
		if strings.HasSuffix(ref, ".resource.Quantity") { // a number is one, too
			clear(s)
			s["type"] = []string{"string", "number"}
			return nil
		}
	case either:
		s["type"] = []string{"string", "integer"}
		delete(s, "anyOf")
	case hasProperties && s["additionalProperties"] == nil && !open:
		s["additionalProperties"] = false
	}
	for _, property := range properties {
		refs = append(refs, closed(property)...)
	}
	for _, key := range []string{"items", "additionalProperties", "anyOf", "allOf", "oneOf"} {
		refs = append(refs, closed(s[key])...)
	}
	return refs
}

func download(t *testing.T, module string) (dir string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	var downloaded struct{ Dir string }
	if err != nil || json.Unmarshal(out, &downloaded) != nil {
		t.Fatalf("download %s: %v\n%s", module, err, out)
	}
	return downloaded.Dir
}

// read reads a file of YAML, or of JSON.
func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name string, schema object) {
	t.Helper()
	text, err := json.Marshal(schema)
	if err == nil {
		err = os.WriteFile(filepath.Join("schemas", name), append(text, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
