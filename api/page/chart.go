package page

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// The size of a chart, in its own units.
const (
	chartWidth  = 600
	chartHeight = 120
)

// chart is a drawing of numbers over time, oldest first.
type chart struct {
	Title string
	// Says describes the drawing in words.
	Says string
	// Most is the number at its upper edge.
	Most  string
	Lines []line
	Bars  []bar
	Gone  []bar  // times without a leader
	From  string // label of the left edge
	To    string
}

// line is one line of a chart.
type line struct {
	Name   string
	Parts  []stroke // with a gap where there are no data
	Number int
}

// stroke is a part of a line, as SVG paths.
type stroke struct{ Path, Area template.HTMLAttr }

// bar is one bar of a chart.
type bar struct {
	X, Y, Width, Height string
	Label               string
}

// coordinate writes a number as SVG takes it.
func coordinate(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// series is the name and the values of a line.
type series struct {
	name   string
	values []float64
}

// newChart draws lines of the last hour. A value that is not a number leaves a gap.
func newChart(title, unit string, all ...series) chart {
	most, newest := 0.0, 0.0
	for _, s := range all {
		for _, v := range s.values {
			if v > most {
				most = v
			}
		}
	}
	if n := len(all[0].values); n > 0 && all[0].values[n-1] > 0 {
		newest = all[0].values[n-1]
	}
	top := niceTop(most)
	c := chart{Title: title, Most: amount(top) + " " + unit, From: "an hour ago", To: "now"}
	c.Says = fmt.Sprintf("%s: now %s, at most %s %s", title, amount(newest), amount(most), unit)
	at := func(x, v float64) string { return coordinate(x) + "," + coordinate(chartHeight-v/top*chartHeight) }
	for i, s := range all {
		l := line{Name: s.name, Number: i}
		step := float64(chartWidth) / float64(max(len(s.values)-1, 1))
		for from := 0; from < len(s.values); from++ {
			if math.IsNaN(s.values[from]) {
				continue
			}
			begin := from
			path := []string{at(float64(from)*step, s.values[from])}
			for ; from+1 < len(s.values) && !math.IsNaN(s.values[from+1]); from++ {
				path = append(path, at(float64(from+1)*step, s.values[from+1]))
			}
			left, right := float64(begin)*step, float64(from)*step
			if begin == from { // a point is wide enough to be seen
				left, right = max(0, left-step/2), min(chartWidth, right+step/2)
				path = []string{at(left, s.values[from]), at(right, s.values[from])}
			}
			points, bottom := strings.Join(path, " "), strconv.Itoa(chartHeight)
			l.Parts = append(l.Parts, stroke{
				attribute("points", points), attribute("points", coordinate(left)+","+bottom+" "+points+" "+coordinate(right)+","+bottom),
			})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// attribute makes an attribute of numbers.
func attribute(name, numbers string) template.HTMLAttr {
	return template.HTMLAttr(name + `="` + numbers + `"`) //nolint:gosec // numbers alone
}

// newBars draws bars with a label each.
func newBars(title, unit string, labels []string, values []float64) chart {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	top := niceTop(most)
	c := chart{Title: title, Most: amount(top) + " " + unit, Says: fmt.Sprintf("%s: at most %s %s", title, amount(most), unit)}
	width := float64(chartWidth) / float64(max(len(values), 1))
	for i, v := range values {
		height := v / top * chartHeight
		c.Bars = append(c.Bars, bar{
			X: coordinate(float64(i)*width + 1), Y: coordinate(chartHeight - height), Width: coordinate(max(width-2, 1)), Height: coordinate(height),
			Label: labels[i] + ": " + amount(v) + " " + unit,
		})
	}
	if len(labels) > 0 {
		c.From, c.To = labels[0], labels[len(labels)-1]
	}
	return c
}

// niceTop is a round number that is not below the greatest one.
func niceTop(most float64) float64 {
	if most <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{1, 2, 5} {
		if most <= times*base {
			return times * base
		}
	}
	return 10 * base
}

// amount writes a number with as many digits as are useful.
func amount(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return number(int64(math.Round(v)))
}
