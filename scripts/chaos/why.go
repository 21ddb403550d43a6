package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// A gap without writes longer than longGap is explained by what nodes logged from
	// beforeGap before it until afterGap after it: the first line of each message of a
	// node, at most maxWhy lines.
	longGap             = 2 * time.Second
	beforeGap, afterGap = time.Second, 500 * time.Millisecond
	maxWhy              = 25
)

// telling matches messages below warning level that say who led, and why that changed.
var telling = regexp.MustCompile(`election|candidate|leader|vote|follower state|ready|listening`)

// logged is a line of a node's log.
type logged struct {
	at   time.Duration // since the run began
	node string
	text string
	with string // the other fields of the line
}

// explain adds what nodes logged to each long gap.
func (r *report) explain(nodes []*harness.Node, began time.Time) {
	var lines []logged
	for _, n := range nodes {
		found, err := readLog(n, began)
		complain(err)
		lines = append(lines, found...)
	}
	slices.SortStableFunc(lines, func(a, b logged) int { return int(a.at - b.at) })
	for i := range r.Plan {
		if e := &r.Plan[i]; e.Note == "" && e.Gap > longGap && !e.Minority {
			e.Why = why(lines, e.Silent-beforeGap, e.Silent+e.Gap+afterGap)
		}
	}
}

// why returns the lines of a time, each message of a node once.
func why(lines []logged, from, to time.Duration) (shown []string) {
	times := map[string]int{}
	var first []logged
	for _, l := range lines {
		if l.at < from || l.at > to {
			continue
		}
		if times[l.node+l.text]++; times[l.node+l.text] == 1 {
			first = append(first, l)
		}
	}
	for i, l := range first {
		if i == maxWhy {
			return append(shown, fmt.Sprintf("and %d others", len(first)-i))
		}
		line := fmt.Sprintf("%7.2f s  %s: %s", l.at.Seconds(), l.node, l.text+l.with)
		if n := times[l.node+l.text]; n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		shown = append(shown, line)
	}
	return shown
}

// readLog returns the lines that a node logged since the run began and that may explain
// a gap.
func readLog(n *harness.Node, began time.Time) (lines []logged, err error) {
	f, err := os.Open(n.Log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		var line map[string]any
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			continue // as what Go prints when a program ends
		}
		stamp, _ := line["time"].(string)
		at, err := time.Parse(time.RFC3339Nano, stamp)
		level, _ := line["level"].(string)
		text, _ := line["msg"].(string)
		if err != nil || at.Before(began) || (level == "INFO" || level == "DEBUG") && !telling.MatchString(text) {
			continue
		}
		words := []string{""}
		for _, name := range slices.Sorted(maps.Keys(line)) {
			if !slices.Contains([]string{"time", "level", "msg", "node", "part"}, name) {
				words = append(words, fmt.Sprintf("%s=%v", name, line[name]))
			}
		}
		lines = append(lines, logged{at.Sub(began), n.Name, text, strings.Join(words, " ")})
	}
	return lines, scanner.Err()
}
