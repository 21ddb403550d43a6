package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type autopilotCommand struct {
	Health autopilotHealthCommand `cmd:"" help:"Show how healthy the leader finds each server; fail unless all are healthy."`
}

type autopilotHealthCommand struct{ target }

func (c *autopilotHealthCommand) Run(ctx context.Context, std terminal.Streams) error {
	health, err := ask[admin.HealthReport](ctx, &c.target, admin.PathHealth, nil)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("voters that may be lost while a majority stays: %d\n\n%s\n\n%s",
		health.FailureTolerance, healthText(&health.Health), conditionsText(health.Reports))
	return errors.Join(terminal.Show(std.Out, c.JSON, health, text), unwell(&health))
}

// unwell returns an error that names the servers with problems, or nil. Slowness alone does
// not count.
func unwell(health *admin.HealthReport) error {
	var ids []string
	for _, s := range health.Reports {
		if s.Part != admin.Outside && (s.Report == nil || len(s.Report.Problems) > 0) {
			ids = append(ids, s.ID)
		}
	}
	switch {
	case len(ids) > 0:
		return fmt.Errorf("not well: %s; the problems of each are listed above, and in its report with --json", strings.Join(ids, ", "))
	case !health.Healthy:
		return errors.New("not every server is healthy yet; see HEALTHY and STABLE SINCE above")
	}
	return nil
}

func healthText(health *admin.Health) string {
	const names = "SERVER\tHEALTHY\tLEADER\tVOTER\tALIVE\tLAST CONTACT\tLAST TERM\tLAST INDEX\tSTABLE SINCE"
	return terminal.Table(names, health.Servers, func(s *admin.ServerHealth) []any {
		contact := "never"
		if s.LastContactMs >= 0 {
			contact = fmt.Sprintf("%d ms", s.LastContactMs)
		}
		return []any{
			s.ID, terminal.YesNo(s.Healthy), terminal.YesNo(s.Leader), terminal.YesNo(s.Voter), terminal.YesNo(s.Alive), contact,
			s.LastTerm, s.LastIndex, s.StableSince.UTC().Format(time.RFC3339),
		}
	})
}
