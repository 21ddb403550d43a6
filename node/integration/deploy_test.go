package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/nodetest"
)

// The files for operators, from this directory.
const (
	rulesFile     = "../../scripts/deploy/prometheus/rules.yml"
	dashboardFile = "../../scripts/deploy/grafana/dashboards/commons.json"
	manualFiles   = "../../docs/operating/*.md"
	alertsFile    = "../../docs/operating/alerts.md"
)

var (
	metricName = regexp.MustCompile(`\b(?:commons|raft|go|process)_[a-zA-Z0-9_]+`)
	ruleExpr   = regexp.MustCompile(`(?m)^ +expr: (.+)$`)
	manualName = regexp.MustCompile("`((?:commons|raft)_[a-zA-Z0-9_]+)`")
	ruleAlert  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
)

// TestAlertsAndDashboardNameWhatIsMeasured: whatever a rule or a panel asks for, or
// the manual names, is served by a node that has taken a write.
func TestAlertsAndDashboardNameWhatIsMeasured(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.Do(t, json.Unmarshal([]byte(fileText(t, dashboardFile)), &dashboard))
	asked := map[string][]string{} // names of metrics by where they are asked for
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asked["panel "+panel.Title] = append(asked["panel "+panel.Title], metricName.FindAllString(target.Expr, -1)...)
		}
	}
	for _, expr := range ruleExpr.FindAllStringSubmatch(fileText(t, rulesFile), -1) {
		asked["rule "+expr[1]] = metricName.FindAllString(expr[1], -1)
	}
	pages := must.Get(filepath.Glob(manualFiles))(t)
	for _, page := range pages {
		for _, name := range manualName.FindAllStringSubmatch(fileText(t, page), -1) {
			asked["manual "+name[1]] = name[1:]
		}
	}
	const fewest = 70
	if len(asked) < fewest {
		t.Fatalf("only %d panels, rules and names in the manual were found", len(asked))
	}

	c := newCluster(t, 1)
	c.MustPublish(0, nodetest.Post{Agent: "ada", Body: "something to measure"})
	served := c.Nodes[0].Metrics()
	for where, names := range asked {
		for _, name := range names {
			if !strings.Contains(served, "\n"+name+" ") && !strings.Contains(served, "\n"+name+"{") && !strings.Contains(served, "\n# TYPE "+name+" ") {
				t.Errorf("%s asks for %s, which is not served", where, name)
			}
		}
	}
}

// TestEveryAlertIsExplained: each has a section that says what to do, and points
// to it.
func TestEveryAlertIsExplained(t *testing.T) {
	t.Parallel()
	rules, manual := fileText(t, rulesFile), fileText(t, alertsFile)
	alerts := ruleAlert.FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("no alert was found")
	}
	for _, alert := range alerts {
		name := alert[1]
		check.Contains(t, manual, "\n### "+name+"\n", "the section of %s in %s", name, alertsFile)
		check.Contains(t, rules, "runbook: docs/operating/alerts.md#"+strings.ToLower(name)+"\n", "the rules for %s", name)
	}
	check.Equal(t, strings.Count(rules, "runbook: "), len(alerts), "runbooks for alerts")
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}
