package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type settingsCommand struct {
	Show settingsShowCommand `cmd:"" default:"withargs" help:"Show the settings, and what is used of the budget today."`
	Set  settingsSetCommand  `cmd:"" help:"Change settings."`
}

type settingsShowCommand struct{ target }

func (c *settingsShowCommand) Run(ctx context.Context, std terminal.Streams) error {
	return answer(ctx, std, &c.target, admin.PathSettings, admin.SettingsChange{}, settingsText)
}

var settingNames = []string{"daily-bytes", "sender-bytes", "proven-only", "retention", "sender-memory", "write-rate", "write-burst", "backup.url", "backup.every", "backup.keep", "backup.verify", "welcome"}

type settingsSetCommand struct {
	target  `embed:""`
	Changes []string `arg:"" help:"daily-bytes=4GiB: of all writes in a day of UTC; sender-bytes=1GiB: of one sender's; 0: no bound. proven-only=true: only names that are proven write. retention=365d: for how long texts are kept; 0d: for good. sender-memory=30d: for how long it is known from where an entry came, as a pseudonym. write-rate=30 and write-burst=10: writes a minute, and at once, of a sender and of a name; 0: no bound; write-rate= leaves it to the flags of serve. backup.url=: no schedule; backup.every=24h; backup.keep=14: how many stay; backup.verify=off: no node restores them as a check. welcome=e12: the entry at the top of the front page; welcome= ends it."`
	Yes     bool     `name:"yes" help:"Change the retention also where texts are older than it: they go for good."`
}

func (c *settingsSetCommand) Run(ctx context.Context, std terminal.Streams) error {
	var change admin.SettingsChange
	problems := make([]error, len(c.Changes))
	for i, s := range c.Changes {
		problems[i] = readSetting(&change, s)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if change.RetentionDays != nil && !c.Yes {
		if err := c.mayLose(ctx, change); err != nil {
			return err
		}
	}
	return answer(ctx, std, &c.target, admin.PathSettings, change, settingsText)
}

// readSetting adds a setting, such as "backup.keep=14", to a change.
func readSetting(change *admin.SettingsChange, s string) error {
	name, value, hasValue := strings.Cut(s, "=")
	bytes, err := admin.ParseBytes(value, command.MaxSettingBytes)
	on, notBool := parseSwitch(value)
	days, notDays := parseDays(value)
	switch {
	case !slices.Contains(settingNames, name):
		return fmt.Errorf("there is no setting %q; there are %s", name, strings.Join(settingNames, ", "))
	case !hasValue: // an empty value ends a schedule or the welcome
		return fmt.Errorf("%q: no value; write it as %s=VALUE", s, name)
	case name == "backup.url":
		change.BackupURL = &value
	case name == "backup.every":
		every, err := time.ParseDuration(value)
		if err != nil || every < time.Millisecond {
			return fmt.Errorf("%q: not a duration; write it as backup.every=24h", s)
		}
		millis := uint64(every.Milliseconds()) //nolint:gosec // checked
		change.BackupMillis = &millis
	case name == "backup.keep":
		keep, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%q: not a number of backups; write it as backup.keep=14", s)
		}
		change.BackupKeep = &keep
	case name == "welcome":
		change.Welcome = &value
	case (name == "proven-only" || name == "backup.verify") && notBool != nil:
		return fmt.Errorf("%q: neither true nor false", s)
	case name == "proven-only":
		change.ProvenOnly = &on
	case name == "backup.verify":
		change.BackupVerify = &on
	case name == "write-rate" || name == "write-burst":
		limit, err := parseLimit(name, value)
		switch {
		case err != nil:
			return fmt.Errorf("%q: %w", s, err)
		case name == "write-rate":
			change.WriteRate = &limit
		default:
			change.WriteBurst = &limit
		}
	case (name == "retention" || name == "sender-memory") && notDays != nil:
		return fmt.Errorf("%q: not a number of days; write it as %s=30d", s, name)
	case name == "retention":
		change.RetentionDays = &days
	case name == "sender-memory":
		change.SenderDays = &days
	case err != nil:
		return fmt.Errorf("%q: %w; write it as %s=512MiB, or 0 for no bound", s, err, name)
	case name == "daily-bytes":
		change.DailyBytes = &bytes
	default:
		change.SenderBytes = &bytes
	}
	return nil
}

// mayLose returns an error if a retention would erase texts.
func (c *settingsSetCommand) mayLose(ctx context.Context, change admin.SettingsChange) error {
	change.DryRun = true
	tried, err := ask[admin.SettingsReport](ctx, &c.target, admin.PathSettings, change)
	if err != nil || tried.Older == 0 {
		return err
	}
	return fmt.Errorf("nothing is changed yet: %d entries are older than %d days, and their texts would go for good; give --yes to have it so",
		tried.Older, *change.RetentionDays)
}

func settingsText(s *admin.SettingsReport) string {
	text := fmt.Sprintf("daily-bytes   %-9s  of all writes in a day of UTC\n"+
		"sender-bytes  %-9s  of those of one sender\n"+
		"proven-only   %-9t  true: only names that are proven write\n"+
		"retention     %s\n"+
		"sender-memory %-9s  for how long it is known from where an entry came, as a pseudonym\n"+
		"write-rate    %-9s  writes a minute of a sender and of a name; 0: no bound; by flag: as the leader's --write-rate says\n"+
		"write-burst   %-9s  of them at once\n"+
		"backup.url    %s\n"+
		"backup.every  %-9v  between two scheduled backups\n"+
		"backup.keep   %-9d  scheduled backups that stay in the store\n"+
		"backup.verify %-9t  true: a node restores each of them as a check\n"+
		"welcome       %-9s  the entry at the top of the front page\n"+
		"%s.",
		boundText(s.DailyBytes), boundText(s.SenderBytes), s.ProvenOnly, retentionText(s), fmt.Sprint(s.SenderDays, "d"), limitText(s.WriteRate), limitText(s.WriteBurst), backupText(s), s.BackupEvery(), s.BackupKeep, s.BackupVerify, cmp.Or(s.Welcome, "-"), budgetText(s))
	if s.DailyBytes > 0 {
		text += fmt.Sprintf(" The second half of daily-bytes is kept for senders below %s.", admin.BytesText(s.SmallShareBytes))
	}
	return text
}

// retentionText describes the retention, and the progress of its sweep.
func retentionText(s *admin.SettingsReport) string {
	text := fmt.Sprintf("%-9s  for how long texts are kept; 0d: for good", fmt.Sprint(s.RetentionDays, "d"))
	if s.RetentionDays > 0 || s.Swept > 0 {
		text += fmt.Sprintf("; %d entries became stubs, %d are to be looked at", s.Swept, s.SweepWaiting)
	}
	return text
}

// backupText describes the store of scheduled backups and the newest run.
func backupText(s *admin.SettingsReport) string {
	run := s.Backup
	if s.BackupURL == "" {
		return "-          no scheduled backups"
	}
	text := s.BackupURL + "; no backup yet"
	if run.Saved > 0 {
		text = s.BackupURL + "; newest of " + terminal.TimeText(run.Saved)
	}
	switch {
	case run.Verified > 0 && run.Verified == run.Saved:
		text += ", and it was restored as a check"
	case run.Verified > 0:
		text += "; the newest one that was restored as a check is of " + terminal.TimeText(run.Verified)
	}
	if run.Doubt != "" {
		text += "; the check failed: " + run.Doubt
	}
	if run.Problem != "" {
		text += "; the run of " + terminal.TimeText(run.Began) + " had a problem: " + run.Problem
	}
	return text
}

// parseLimit reads a limit of writes. An empty one leaves it to the flags of the nodes.
func parseLimit(name, s string) (int64, error) {
	if s == "" {
		return command.NotSet, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > command.MaxWriteSetting {
		return 0, fmt.Errorf("not a number of writes from 0 to %d; write it as %s=30, or %s= for the flags of the nodes", command.MaxWriteSetting, name, name)
	}
	return n, nil
}

// parseSwitch reads true or false, also as on or off.
func parseSwitch(s string) (bool, error) {
	if s == "on" || s == "off" {
		return s == "on", nil
	}
	return strconv.ParseBool(s)
}

func limitText(n int64) string {
	if n == command.NotSet {
		return "by flag"
	}
	return strconv.FormatInt(n, 10)
}

// parseDays reads a number of days, such as 30d.
func parseDays(s string) (uint64, error) {
	number, found := strings.CutSuffix(s, "d")
	if !found {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(number, 10, 64)
}

func boundText(bytes uint64) string {
	if bytes == 0 {
		return "no bound"
	}
	return admin.BytesText(bytes)
}

func budgetText(s *admin.SettingsReport) string {
	text := fmt.Sprintf("%s of %s used today by %d senders, networks and names", admin.BytesText(s.UsedBytes), boundText(s.DailyBytes), s.Senders)
	if s.DailyBytes > 0 {
		const percent = 100
		text += fmt.Sprintf(" (%.0f%%)", percent*float64(s.UsedBytes)/float64(s.DailyBytes))
	}
	return text
}
