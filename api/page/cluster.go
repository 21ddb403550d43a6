package page

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
)

// fillCluster is the page of the nodes.
func fillCluster(p *builder, answer []byte) error {
	var c wire.Cluster
	if err := decode(answer, &c); err != nil {
		return err
	}
	var m wire.Measured
	if err := p.call(&m, "getMeasured"); err != nil {
		return err
	}
	of := func(points []wire.Point, value func(wire.Point) float64) []float64 {
		list := make([]float64, len(points))
		for i, one := range points {
			list[i] = value(one)
		}
		return list
	}
	// A node has no data from before its start, and no times without calls.
	before := len(m.Writes)
	for _, n := range c.Nodes {
		if n.Name == p.r.Node() && m.PartMillis > 0 {
			before = max(0, len(m.Writes)-int(n.UptimeMillis/m.PartMillis)-1)
		}
	}
	rates := func(points []wire.Point) []float64 {
		list := of(points, func(one wire.Point) float64 {
			return float64(one.Count) / (time.Duration(m.PartMillis) * time.Millisecond).Seconds()
		})
		for i := range list[:before] {
			list[i] = math.NaN()
		}
		return list
	}
	measured := func(one wire.Point, millis float64) float64 {
		if one.Count == 0 {
			return math.NaN()
		}
		return millis
	}
	mean := func(one wire.Point) float64 { return measured(one, one.MeanMillis) }
	most := func(one wire.Point) float64 { return measured(one, one.MostMillis) }
	charts := []chart{
		newChart("Writes", "a second", series{"", rates(m.Writes)}),
		newChart("Reads", "a second", series{"", rates(m.Reads)}),
		newChart("Time of a write", "ms", series{"mean", of(m.Writes, mean)}, series{"longest", of(m.Writes, most)}),
		newChart("Time of a read", "ms", series{"mean", of(m.Reads, mean)}, series{"longest", of(m.Reads, most)}),
	}
	begin, length := p.frame.now-m.PartMillis*int64(len(m.Writes)), m.PartMillis*int64(len(m.Writes))
	var gone []bar
	for _, o := range m.Outages {
		to, end := o.To, "until "+ago(p.frame.now, o.To)
		if to == 0 {
			to, end = p.frame.now, "still"
		}
		x := float64(max(o.From, begin)-begin) * chartWidth / float64(max(length, 1))
		width := float64(to-begin)*chartWidth/float64(max(length, 1)) - x
		if to > begin {
			label := "no leader for " + duration(to-o.From) + ", " + end
			gone = append(gone, bar{X: coordinate(x), Width: coordinate(max(width, 1)), Label: label})
		}
	}
	for i := range charts {
		charts[i].Gone = gone
	}
	p.frame.Title, p.frame.Description = "Cluster", "The nodes of this service and their health."
	p.frame.Body = map[string]any{"Cluster": c, "Node": p.r.Node(), "Charts": charts, "Gone": gone}
	return nil
}

// usageDays is for how many days the statistics show the calls.
const usageDays = 30

// tally counts calls by one of their properties.
type tally struct {
	Name  string
	Count int64
	Share int // of all, in percent
}

// fillStats is the page of the statistics.
func fillStats(p *builder, answer []byte) error {
	var stats client.Stats
	if err := decode(answer, &stats); err != nil {
		return err
	}
	var usage client.Usage
	if err := p.call(&usage, "getUsage", "days", "30"); err != nil {
		return err
	}
	days := map[string]float64{}
	surfaces, actions, clients := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, r := range usage.Rows {
		days[r.Day] += float64(r.Count)
		surfaces[strings.ToUpper(r.Surface)] += r.Count
		actions[r.Action] += r.Count
		clients[r.Client] += r.Count
	}
	labels, values := make([]string, usageDays), make([]float64, usageDays)
	for i := range labels {
		labels[i] = time.UnixMilli(usage.Since).UTC().AddDate(0, 0, i).Format(time.DateOnly)
		values[i] = days[labels[i]]
	}
	p.frame.Title, p.frame.Description = "Statistics", "The activity of outside agents, and the calls of the last 30 days."
	p.frame.Body = map[string]any{
		"Stats": stats, "Usage": usage.Totals, "Calls": newBars("Calls a day", "calls", labels, values),
		"Tables": []map[string]any{
			{"Title": "By surface", "Rows": tallies(surfaces)},
			{"Title": "By action", "Rows": tallies(actions)},
			{"Title": "By kind of client", "Rows": tallies(clients)},
		},
	}
	return nil
}

// maxTallies is how many rows a table of calls has.
const maxTallies = 12

// tallies orders counts, the greatest first.
func tallies(counts map[string]int64) []tally {
	var all int64
	list := make([]tally, 0, len(counts))
	for name, count := range counts {
		all += count
		list = append(list, tally{Name: name, Count: count})
	}
	slices.SortFunc(list, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name))
	})
	for i := range list {
		list[i].Share = int((100*list[i].Count + all/2) / max(all, 1))
	}
	return list[:min(len(list), maxTallies)]
}

// connections are the tabs of the page that says how to connect an agent.
var connections = []string{"Python", "JavaScript", "Go", "Command line", "curl", "MCP"}

// fillConnect is the page that says how to connect an agent, one way at a time.
func fillConnect(p *builder, _ []byte) (err error) {
	tabs := make([]choice, 0, len(connections))
	chosen := given(p.r, "with")
	if !slices.Contains(connections, chosen) {
		chosen = connections[0]
	}
	for _, name := range connections {
		tabs = append(tabs, choice{Name: name, Path: "/connect?" + encode(pairs("with", name)), Active: name == chosen})
	}
	body := map[string]any{
		"Base": p.r.BaseURL(), "Tabs": tabs, "With": chosen,
		"Form": &form{Title: "Try it", Check: true, Key: newRequestID(), Channel: "playground"},
	}
	if chosen == "MCP" {
		setup := strings.ReplaceAll(p.site.setup, "$URL", p.r.BaseURL())
		body["Setup"], err = p.site.markdown.document(setup, strings.ToLower)
	}
	p.frame.Title, p.frame.Body = "Connect your agent", body
	p.frame.Description = "Programs in Python, JavaScript, Go, shell, and settings of MCP clients, to connect an agent to this service."
	return err
}
