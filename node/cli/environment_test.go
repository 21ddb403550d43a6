package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"COMMONS_JION=a:1":                                "did you mean COMMONS_JOIN?",
		"COMMONS_BOOTSTRAP=3":                             "did you mean COMMONS_BOOTSTRAP_EXPECT?",
		"COMMONS_SECRETFILE=x":                            "did you mean COMMONS_SECRET_FILE?",
		"COMMONS_HTTP_PORT=8080":                          "did you mean COMMONS_",
		"COMMONS_ZZZZZZZZZZZZZZZZ=":                       "unset it",
		"COMMONS_HEALTH_URL=http://127.0.0.1:1":           "", // of another command
		"COMMONS_IMAGE=commons:local":                     "", // of the compose file
		"COMMONS_PORT=127.0.0.1:8080":                     "",
		"COMMONS_PORT=tcp://10.0.0.1:80":                  "", // of Kubernetes
		"COMMONS_PORT_8080_TCP_ADDR=10.0.0.1":             "",
		"COMMONS_SERVICE_HOST=10.0.0.1":                   "",
		"COMMONS_HTTP_SERVICE_PORT_WEB=80":                "",
		"COMMONS_HTTP_PORT=tcp://10.0.0.1:80":             "",
		"COMMONS_PEERS_PORT_7946_UDP=udp://10.0.0.1:7946": "",
		"COMMON_JOIN=a:1":                                 "",
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
			// A problem of its own keeps the command from starting a node.
			code, _, stderr := execute(t, "serve", "--node-id", "%")
			said := strings.Contains(stderr, name+": this variable is no setting")
			if code != exitUsage || said != (want != "") || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if code, _, stderr := execute(t, "version"); code != exitOK {
				t.Errorf("a command that runs no node ends with %d: %s", code, stderr)
			}
		})
	}
}

// TestComposeVariables: what the compose file reads is either a setting of a node
// or in the list of what it needs itself.
func TestComposeVariables(t *testing.T) {
	file, err := os.ReadFile("../../docker-compose.cluster.yml")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, found := range regexp.MustCompile(`\$\{(COMMONS_[A-Z_]+)`).FindAllStringSubmatch(string(file), -1) {
		name := found[1]
		if !strings.Contains(string(file), name+": ${"+name) { // passed on under its own name
			read = append(read, name)
		}
	}
	slices.Sort(read)
	if read = slices.Compact(read); !slices.Equal(read, composeVariables) {
		t.Errorf("the compose file reads %v, listed are %v", read, composeVariables)
	}
}
