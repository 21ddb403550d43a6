package kubernetes

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root           = "../../.."
	manifestsDir   = root + "/scripts/deploy/kubernetes"
	rulesFile      = root + "/scripts/deploy/prometheus/rules.yml"
	schemaLocation = "schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json"
	// endsWithin is how long `commons serve` takes to end after SIGTERM (node/cli/serve.go).
	endsWithin = 25 * time.Second
)

type labels map[string]string

type selector struct {
	MatchLabels labels `json:"matchLabels"`
}

func (s selector) matches(l labels) bool {
	for name, value := range s.MatchLabels {
		if l[name] != value {
			return false
		}
	}
	return len(s.MatchLabels) > 0
}

type port struct {
	Name          string
	Port          any    // a number, or a name
	ContainerPort int    `json:"containerPort"`
	TargetPort    string `json:"targetPort"`
	Protocol      string
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		FieldRef struct {
			FieldPath string `json:"fieldPath"`
		} `json:"fieldRef"`
	} `json:"valueFrom"`
}

type command struct{ Command []string }

type probe struct {
	HTTPGet *struct{ Path, Port string } `json:"httpGet"`
	Exec    *command
}

type container struct {
	Args    []string
	EnvFrom []struct {
		ConfigMapRef struct{ Name string } `json:"configMapRef"`
	} `json:"envFrom"`
	Env                                         []variable
	Ports                                       []port
	StartupProbe, LivenessProbe, ReadinessProbe probe
	Lifecycle                                   struct {
		PreStop struct{ Sleep struct{ Seconds int } }
	}
	VolumeMounts    []struct{ Name, MountPath string }
	Resources       struct{ Limits struct{ Memory string } }
	SecurityContext object
}

type podSpec struct {
	Containers                    []container
	Volumes                       []volume
	TerminationGracePeriodSeconds int
	SecurityContext               object
}

type volume struct {
	Name                  string
	Secret                struct{ SecretName string }
	PersistentVolumeClaim struct{ ClaimName string }
}

// manifest has the fields of all kinds that the tests read.
type manifest struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          labels
	}
	Data map[string]string
	Spec struct {
		Replicas            int
		ServiceName         string
		PodManagementPolicy string
		Template            struct {
			Metadata struct{ Labels labels }
			Spec     podSpec
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
		Selector             json.RawMessage
		PodSelector          selector
		Ports                []port
		Ingress              []struct{ Ports []port }
		Endpoints            []port
		Groups               any
	}
}

// manifests are those of one kustomization or file.
type manifests []manifest

// render returns the manifests of a kustomization. Each has to be one that the API server
// accepts.
func render(t *testing.T, dir string) manifests {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, dir, text)
}

// parse validates manifests and returns them.
func parse(t *testing.T, name string, text []byte) (all manifests) {
	t.Helper()
	check, err := validator.New([]string{schemaLocation}, validator.Opts{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range check.Validate(name, io.NopCloser(bytes.NewReader(text))) {
		if r.Status != validator.Valid {
			t.Errorf("%s: %v %v in\n%.200s", name, r.Err, r.ValidationErrors, r.Resource.Bytes)
		}
		var m manifest
		if err := yaml.Unmarshal(r.Resource.Bytes, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// one returns the only manifest of a kind with a name.
func (all manifests) one(t *testing.T, kind, name string) manifest {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(m manifest) bool { return m.Kind != kind || m.Metadata.Name != name })
	if len(found) != 1 {
		t.Fatalf("%d manifests %s %s, want one", len(found), kind, name)
	}
	return found[0]
}

func (m manifest) selects(t *testing.T, l labels) bool {
	t.Helper()
	var byExpressions selector
	var plain labels
	if json.Unmarshal(m.Spec.Selector, &byExpressions) == nil && len(byExpressions.MatchLabels) > 0 {
		return byExpressions.matches(l)
	}
	if err := json.Unmarshal(m.Spec.Selector, &plain); err != nil {
		t.Fatal(err)
	}
	return selector{plain}.matches(l)
}

// TestManifests holds that the manifests of every kustomization fit together: names, labels,
// ports, times, and the needs of the image.
func TestManifests(t *testing.T) {
	for name, nodes := range map[string]int{"three": 3, "five": 5, "example": 3} {
		t.Run(name, func(t *testing.T) {
			all := render(t, filepath.Join(manifestsDir, name))
			set := all.one(t, "StatefulSet", "commons")
			pod := set.Spec.Template
			c := pod.Spec.Containers[0]
			var settings labels
			for _, m := range all {
				if m.Kind == "ConfigMap" && m.Metadata.Name == c.EnvFrom[0].ConfigMapRef.Name {
					settings = m.Data
				}
			}
			var names, numbers []string
			for _, p := range c.Ports {
				names = append(names, p.Name)
				numbers = append(numbers, string(must(json.Marshal(p.ContainerPort)))+p.Protocol)
			}
			if set.Spec.Replicas != nodes || settings["COMMONS_BOOTSTRAP_EXPECT"] != string(must(json.Marshal(nodes))) {
				t.Errorf("%d replicas, and settings %v, want %d", set.Spec.Replicas, settings, nodes)
			}
			if set.Spec.PodManagementPolicy != "Parallel" {
				t.Error("pods wait for others to be ready, which need them")
			}
			for _, m := range all {
				what := m.Kind + " " + m.Metadata.Name
				if m.Kind != "Namespace" && m.Metadata.Namespace != "commons" {
					t.Errorf("%s is in the namespace %q", what, m.Metadata.Namespace)
				}
				switch m.Kind {
				case "Service", "PodDisruptionBudget", "StatefulSet":
					if !m.selects(t, pod.Metadata.Labels) {
						t.Errorf("%s does not select the pods", what)
					}
				case "NetworkPolicy":
					if !m.Spec.PodSelector.matches(pod.Metadata.Labels) {
						t.Errorf("%s does not select the pods", what)
					}
				case "ServiceMonitor":
					nodes := all.one(t, "Service", set.Spec.ServiceName)
					if !m.selects(t, nodes.Metadata.Labels) || m.selects(t, all.one(t, "Service", "commons").Metadata.Labels) {
						t.Error("the monitor does not select the headless service alone")
					}
				}
				for _, p := range m.Spec.Ports {
					if m.Kind == "Service" && !slices.Contains(names, p.TargetPort) {
						t.Errorf("%s: the pods have no port %q", what, p.TargetPort)
					}
				}
				for _, rule := range m.Spec.Ingress {
					for _, p := range rule.Ports {
						number := string(must(json.Marshal(p.Port))) + p.Protocol
						if named, is := p.Port.(string); !slices.Contains(numbers, number) && (!is || !slices.Contains(names, named)) {
							t.Errorf("%s: the pods have no port %v", what, p.Port)
						}
					}
				}
			}
			if headless := all.one(t, "Service", set.Spec.ServiceName); len(headless.Spec.Ports) != len(c.Ports) {
				t.Errorf("the headless service has %d ports, the pods %d", len(headless.Spec.Ports), len(c.Ports))
			}
			grace := time.Duration(pod.Spec.TerminationGracePeriodSeconds) * time.Second
			if wait := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second; wait <= 0 || wait+endsWithin >= grace {
				t.Errorf("a node waits for %v and ends within %v, and is killed after %v", wait, endsWithin, grace)
			}
			restricted(t, pod.Spec)
		})
	}
}

// restricted checks the demands of the namespace's level, and the image.
func restricted(t *testing.T, pod podSpec) {
	t.Helper()
	dockerfile := string(must(os.ReadFile(root + "/Dockerfile")))
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(dockerfile)
	if user == nil || !strings.Contains(dockerfile, `ENTRYPOINT ["/commons"]`) {
		t.Fatal("the image has another user or entry point")
	}
	got := must(json.Marshal(pod.SecurityContext))
	want := `{"fsGroup":` + user[2] + `,"fsGroupChangePolicy":"OnRootMismatch","runAsGroup":` + user[2] + `,"runAsNonRoot":true,"runAsUser":` + user[1] + `,"seccompProfile":{"type":"RuntimeDefault"}}`
	if string(got) != want {
		t.Errorf("the pod runs as %s, want %s", got, want)
	}
	got = must(json.Marshal(pod.Containers[0].SecurityContext))
	if want := `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true}`; string(got) != want {
		t.Errorf("the container has %s, want %s", got, want)
	}
}

// TestRules holds that the alerts are those of Prometheus without the Operator, but for those
// of HAProxy.
func TestRules(t *testing.T) {
	const balancer = "commons-balancer"
	var rules struct {
		Groups []object `json:"groups"`
	}
	read(t, rulesFile, &rules)
	rules.Groups = slices.DeleteFunc(rules.Groups, func(g object) bool { return g["name"] == balancer })
	file := filepath.Join(manifestsDir, "monitoring", "rules.yaml")
	want := "# Written by `go test ./kubernetes -run TestRules -update` in tools/deploy, from ../prometheus/rules.yml.\n" + string(must(yaml.Marshal(object{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": object{"name": "commons"}, "spec": rules,
	})))
	if *update {
		must(0, os.WriteFile(file, []byte(want), 0o600))
	}
	if got := string(must(os.ReadFile(file))); got != want {
		t.Errorf("%s differs from %s; write it again with -update", file, rulesFile)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
