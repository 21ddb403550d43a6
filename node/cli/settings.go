package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
)

type settingsCommand struct {
	Show settingsShowCommand `cmd:"" default:"withargs" help:"Show the settings, and what is used of the budget today."`
	Set  settingsSetCommand  `cmd:"" help:"Change settings."`
}

type settingsShowCommand struct {
	target `embed:""`
}

// Run shows the settings.
func (c *settingsShowCommand) Run(ctx context.Context, std streams) error {
	return settings(ctx, std, &c.target, admin.SettingsChange{})
}

type settingsSetCommand struct {
	target  `embed:""`
	Changes []string `arg:"" help:"daily-bytes=4GiB: of all writes without a key in a day of UTC; sender-bytes=1GiB: of one sender's; 0: no bound."`
}

// Run changes settings.
func (c *settingsSetCommand) Run(ctx context.Context, std streams) error {
	var change admin.SettingsChange
	for _, s := range c.Changes {
		name, value, _ := strings.Cut(s, "=")
		bytes, err := parseBytes(value)
		switch {
		case err != nil:
			return fmt.Errorf("%q: %w; write it as %s=512MiB, or 0 for no bound", s, err, name)
		case name == "daily-bytes":
			change.DailyBytes = &bytes
		case name == "sender-bytes":
			change.SenderBytes = &bytes
		default:
			return fmt.Errorf("there is no setting %q; there are daily-bytes and sender-bytes", name)
		}
	}
	return settings(ctx, std, &c.target, change)
}

func settings(ctx context.Context, std streams, t *target, change admin.SettingsChange) error {
	answer, err := ask[admin.SettingsReport](ctx, t, admin.PathSettings, change)
	if err != nil {
		return err
	}
	return show(std.out, t.JSON, answer, settingsText(&answer))
}

func settingsText(s *admin.SettingsReport) string {
	return fmt.Sprintf("daily-bytes   %s   of all writes without a key in a day of UTC\n"+
		"sender-bytes  %s   of those of one sender\n"+
		"%s. The second half of daily-bytes is kept for senders below %s.",
		boundText(s.DailyBytes), boundText(s.SenderBytes), budgetText(s), boundText(s.SmallShareBytes))
}

func boundText(bytes uint64) string {
	if bytes == 0 {
		return "no bound"
	}
	return bytesText(bytes)
}

// budgetText says what is used of the budget today.
func budgetText(s *admin.SettingsReport) string {
	text := fmt.Sprintf("%s of %s used today by %d senders without a key", bytesText(s.UsedBytes), boundText(s.DailyBytes), s.Senders)
	if s.DailyBytes > 0 {
		const percent = 100
		text += fmt.Sprintf(" (%.0f%%)", percent*float64(s.UsedBytes)/float64(s.DailyBytes))
	}
	return text
}

// parseBytes reads a number of bytes, with a binary prefix or none.
func parseBytes(s string) (uint64, error) {
	unit := uint64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if number, found := strings.CutSuffix(s, suffix); found {
			const step = 10
			s, unit = number, 1<<(step*(i+1))
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > command.MaxSettingBytes/unit {
		return 0, fmt.Errorf("not a number of bytes up to %s", bytesText(command.MaxSettingBytes))
	}
	return n * unit, nil
}
