package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/record"
)

const (
	width, height = 1000, 120 // of a chart, in its own units
	bucket        = 250 * time.Millisecond
)

// chart is lines over the time of a run.
type chart struct {
	Title string
	Top   string // the value at the upper edge
	Lines []line
}

type line struct{ Class, Points string }

// bar is a period on a lane of the timeline.
type bar struct {
	X, W, Y   float64
	Class     string
	Text, Tip string
}

// x is the horizontal position of an instant.
func (r *report) x(at time.Duration) float64 { return float64(at) / float64(r.Length) * width }

// charts are rates and latencies.
func (r *report) charts() []chart {
	n := int(r.Length/bucket) + 1
	var writes, reads, trouble [][]float64
	for _, series := range []*[][]float64{&writes, &reads, &trouble} {
		*series = make([][]float64, n)
	}
	for i := range r.calls {
		c := &r.calls[i]
		at := min(int(c.End/bucket), n-1)
		took := float64((c.End - c.Begin).Microseconds()) / 1000
		switch {
		case c.Outcome == record.Failed || c.Outcome == record.Unknown:
			trouble[at] = append(trouble[at], took)
		case c.Kind.Writes():
			writes[at] = append(writes[at], took)
		default:
			reads[at] = append(reads[at], took)
		}
	}
	perSecond := func(times []float64) float64 { return float64(len(times)) / bucket.Seconds() }
	percentile := func(p float64) func([]float64) float64 {
		return func(times []float64) float64 {
			if len(times) == 0 {
				return 0
			}
			slices.Sort(times)
			return times[int(p*float64(len(times)-1))]
		}
	}
	return []chart{
		draw("Writes a second that were answered; red: calls that failed or whose outcome is unknown", "/s",
			series{"writes", writes, perSecond}, series{"trouble", trouble, perSecond}),
		draw("Reads a second", "/s", series{"reads", reads, perSecond}),
		draw("Time of a write: median and 99th percentile, by when it was answered", " ms",
			series{"p99", writes, percentile(0.99)}, series{"writes", writes, percentile(0.5)}),
	}
}

type series struct {
	class string
	data  [][]float64
	value func([]float64) float64
}

func draw(title, unit string, all ...series) chart {
	most := 1.0
	values := make([][]float64, len(all))
	for i, s := range all {
		for _, times := range s.data {
			v := s.value(times)
			values[i] = append(values[i], v)
			most = max(most, v)
		}
	}
	c := chart{Title: title, Top: fmt.Sprintf("%.0f%s", most, unit)}
	for i, s := range all {
		var points strings.Builder
		for j, v := range values[i] {
			fmt.Fprintf(&points, "%.1f,%.1f ", float64(j)/float64(max(1, len(values[i])-1))*width, height-v/most*height)
		}
		c.Lines = append(c.Lines, line{s.class, points.String()})
	}
	return c
}

const laneHeight = 18

// faultLanes are the faults, each in the first free lane, and below them the leaders.
func (r *report) faultLanes() map[string]any {
	var bars []bar
	var free []time.Duration
	for _, e := range r.Plan {
		if e.Note != "" {
			continue
		}
		lane := slices.IndexFunc(free, func(until time.Duration) bool { return until <= e.Begin })
		if lane < 0 {
			free = append(free, 0)
			lane = len(free) - 1
		}
		free[lane] = max(e.End, e.Begin+r.Length/8) // room for its name
		bars = append(bars, bar{
			r.x(e.Begin), max(2, r.x(e.End-e.Begin)), float64(lane * laneHeight), "fault", e.Fault + " " + strings.Join(e.Nodes, " "),
			fmt.Sprintf("%s of %s, from %.2f s to %.2f s", e.Fault, strings.Join(e.Nodes, ", "), e.Begin.Seconds(), e.End.Seconds()),
		})
	}
	y := float64(len(free) * laneHeight)
	for i, l := range r.Leads {
		until := r.Length
		if i+1 < len(r.Leads) {
			until = r.Leads[i+1].At
		}
		text := l.Node
		if l.Term > 0 { // 0: the node did not answer when it was asked for its term
			text += fmt.Sprintf(", term %d", l.Term)
		}
		bars = append(bars, bar{
			r.x(l.At), max(2, r.x(until-l.At)), y, "lead", text, fmt.Sprintf("%s: says that it leads, from %.2f s on", text, l.At.Seconds()),
		})
	}
	return map[string]any{"Bars": bars, "Height": y + laneHeight}
}
