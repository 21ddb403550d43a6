package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestSettingsOfTheMachine holds that operators' commands use the settings of this
// machine's node, and that flags and variables override them.
func TestSettingsOfTheMachine(t *testing.T) {
	c := nodetest.New(t, 1)
	file := filepath.Join(t.TempDir(), "commons.env")
	settings := "# of one node\nCOMMONS_DATA_DIR=/var/lib/commons\n\n#COMMONS_SECRET_FILE=/x\nCOMMONS_CLUSTER_ADDR=\"" + c.Nodes[0].ClusterAddr() + "\"\n"
	must.Do(t, os.WriteFile(file, []byte(settings), 0o600))
	said := "commons: --cluster-addr is " + c.Nodes[0].ClusterAddr() + ", from " + file + "\n"
	for name, tc := range map[string]struct {
		file, variable string
		args           []string
		code           int
		says           string
	}{
		"from the file":        {file, "", []string{"members"}, ExitOK, said},
		"not used":             {file, "", []string{"version"}, ExitOK, ""},
		"a flag overrides":     {file, "", []string{"members", "--cluster-addr", "127.0.0.1:1"}, ExitFailed, "commons: the node at 127.0.0.1:1 is not there"},
		"a variable overrides": {file, "127.0.0.1:1", []string{"members"}, ExitFailed, "commons: the node at 127.0.0.1:1 is not there"},
		"no file":              {file + "x", c.Nodes[0].ClusterAddr(), []string{"members"}, ExitOK, ""},
		"a file that cannot be read": {
			t.TempDir(), c.Nodes[0].ClusterAddr(), []string{"members"}, ExitOK, "commons: the settings of this machine's node are not used: read ",
		},
		"a node of its own": {file, "", []string{"serve", "--node-id", "%"}, ExitUsage, "commons: the command was not run"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.variable != "" {
				t.Setenv("COMMONS_CLUSTER_ADDR", tc.variable)
			}
			code, _, stderr := executeWith(t, tc.file, tc.args...)
			check.Equal(t, code, tc.code, "exit code")
			if !strings.HasPrefix(stderr, tc.says) || tc.says == "" && stderr != "" {
				t.Errorf("stderr %q, want %q at its start", stderr, tc.says)
			}
		})
	}
}
