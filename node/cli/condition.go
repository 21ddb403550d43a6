package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

// writeConditions shows what each server has measured of itself, and below it
// whatever is not well.
func writeConditions(out io.Writer, servers []admin.Server) error {
	rows := []string{"LAST MINUTE\tWRITES\tREFUSED\tTIME EACH\tLOG SYNC\tSTALL\tAPPLY LAG\tCLOCK"}
	var flags []string
	for _, s := range servers {
		r := s.Report
		if r == nil {
			rows = append(rows, s.ID)
			flags = append(flags, silence(&s))
			continue
		}
		rows = append(rows, row(s.ID, r.Write.Count, refusedText(r), timingText(r.Write), timingText(r.Sync), timingText(r.Stall),
			lagText(r), signedText(r.ClockAheadMillis)))
		for _, list := range [][]string{r.Problems, r.Warnings} {
			for _, line := range list {
				flags = append(flags, s.ID+": "+line)
			}
		}
	}
	if err := table(out, rows); err != nil {
		return err
	}
	for i, line := range flags {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, "!", line)
	}
	return nil
}

// silence says why there is no report of a server. One that gossip still hears runs.
func silence(s *admin.Server) string {
	if s.Alive {
		return s.Error + "; gossip still hears of it: it was stopped, is not given the processor, or its disk hangs"
	}
	return s.Error
}

func refusedText(r *admin.NodeReport) string {
	var count uint64
	codes := make([]string, 0, len(r.Refused))
	for _, refused := range r.Refused {
		count += refused.Count
		codes = append(codes, refused.Code)
	}
	text := strconv.FormatUint(count, 10)
	if len(codes) > 0 {
		text += " " + strings.Join(codes, ",")
	}
	if r.Refuses != "" {
		text += " (all now)"
	}
	return text
}

// timingText is a mean and the most.
func timingText(t admin.Timing) string {
	if t.Count == 0 {
		return "-"
	}
	return millisText(t.MeanMillis) + ", max " + millisText(t.MostMillis)
}

func lagText(r *admin.NodeReport) string {
	if r.ApplyLag == 0 && r.ApplyLagMillis == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, %s", r.ApplyLag, millisText(r.ApplyLagMillis))
}

// The steps at which a time is shown with less detail.
const (
	fineMillis   = 10
	coarseMillis = 10_000
)

func millisText(ms float64) string {
	switch {
	case ms < fineMillis:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < coarseMillis:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}

// signedText is how far a clock is ahead, or behind.
func signedText(ms float64) string {
	if ms < 0 {
		return "-" + millisText(-ms)
	}
	return "+" + millisText(ms)
}
