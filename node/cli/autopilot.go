package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

type autopilotCommand struct {
	Health autopilotHealthCommand `cmd:"" help:"Show the leader's judgement of each server; fail unless all are healthy."`
}

type autopilotHealthCommand struct {
	target `embed:""`
}

// Run shows the health of the servers.
func (c *autopilotHealthCommand) Run(ctx context.Context, std streams) error {
	health, err := ask[admin.HealthReport](ctx, &c.target, admin.PathHealth, nil)
	if err != nil {
		return err
	}
	if c.JSON {
		err = show(std.out, true, health, "")
	} else {
		fmt.Fprintf(std.out, "voters that may be lost while a majority stays: %d\n\n", health.FailureTolerance)
		err = table(std.out, healthRows(&health.Health))
		fmt.Fprintln(std.out)
		err = errors.Join(err, writeConditions(std.out, health.Reports))
	}
	if err != nil {
		return err
	}
	return c.verdict(&health)
}

// verdict returns nil when all is well: slowness alone is none of its business.
func (c *autopilotHealthCommand) verdict(health *admin.HealthReport) error {
	var unwell []string
	for _, s := range health.Reports {
		if s.Part != admin.Outside && (s.Report == nil || len(s.Report.Problems) > 0) {
			unwell = append(unwell, s.ID)
		}
	}
	switch {
	case len(unwell) > 0:
		return fmt.Errorf("not well: %s; what each one lacks stands above, and in its report with --json", strings.Join(unwell, ", "))
	case !health.Healthy:
		return errors.New("not every server is healthy yet; see HEALTHY and STABLE SINCE above")
	}
	return nil
}

func healthRows(health *admin.Health) []string {
	rows := append(make([]string, 0, 1+len(health.Servers)), "SERVER\tHEALTHY\tLEADER\tVOTER\tALIVE\tLAST CONTACT\tLAST TERM\tLAST INDEX\tSTABLE SINCE")
	for _, s := range health.Servers {
		contact := "never"
		if s.LastContactMs >= 0 {
			contact = fmt.Sprintf("%d ms", s.LastContactMs)
		}
		rows = append(rows, row(s.ID, yesNo(s.Healthy), yesNo(s.Leader), yesNo(s.Voter), yesNo(s.Alive), contact,
			s.LastTerm, s.LastIndex, s.StableSince.UTC().Format(time.RFC3339)))
	}
	return rows
}
