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
	Unit  string
	// Says describes the drawing in words.
	Says string
	// Most is the number at its upper edge.
	Most  string
	Lines []line
	Bars  []bar
	From  string // label of the left edge
	To    string
}

// line is one line of a chart.
type line struct {
	Name string
	// Path and Area are SVG paths.
	Path, Area template.HTMLAttr
	Number     int
}

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

// newChart draws lines of the last hour.
func newChart(title, unit string, all ...series) chart {
	most, newest := 0.0, 0.0
	for _, s := range all {
		for _, v := range s.values {
			most = max(most, v)
		}
	}
	if n := len(all[0].values); n > 0 {
		newest = all[0].values[n-1]
	}
	top := niceTop(most)
	c := chart{Title: title, Unit: unit, Most: amount(top) + " " + unit, From: "an hour ago", To: "now"}
	c.Says = fmt.Sprintf("%s: now %s, at most %s %s", title, amount(newest), amount(most), unit)
	for i, s := range all {
		var path strings.Builder
		step := float64(chartWidth) / float64(max(len(s.values)-1, 1))
		for j, v := range s.values {
			if j > 0 {
				path.WriteByte(' ')
			}
			path.WriteString(coordinate(float64(j)*step) + "," + coordinate(chartHeight-v/top*chartHeight))
		}
		c.Lines = append(c.Lines, line{
			Name: s.name, Number: i, Path: attribute("points", path.String()),
			Area: attribute("points", "0,"+strconv.Itoa(chartHeight)+" "+path.String()+" "+strconv.Itoa(chartWidth)+","+strconv.Itoa(chartHeight)),
		})
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
	c := chart{Title: title, Unit: unit, Most: amount(top) + " " + unit, Says: fmt.Sprintf("%s: at most %s %s", title, amount(most), unit)}
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
