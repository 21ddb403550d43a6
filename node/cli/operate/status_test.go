package operate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/node/admin"
)

// someSettings have half a day of writes behind them.
var someSettings = admin.SettingsReport{
	Settings: command.Settings{
		DailyBytes: 512 << 20, SenderDays: 30, WriteRate: command.NotSet, WriteBurst: 20,
		BackupURL: "s3://backups/commons", BackupMillis: command.DayMillis, BackupKeep: 14, BackupVerify: true, Welcome: "e12",
	},
	Backup:          state.BackupRun{Began: 1_700_086_400_000, Saved: 1_700_000_000_000, Failed: true, Problem: "the bucket is full", Verified: 1_699_913_600_000, Doubt: "its checksum differs"},
	SmallShareBytes: 128 << 10, UsedBytes: 64 << 20, Senders: 12, DayMillis: 12 * 3_600_000,
}

// someCluster is a cluster with a leader, a follower that lags, a voter that does
// not answer and a node that is just joining.
func someCluster() admin.ClusterReport {
	reported := func(id, role string, applied uint64) *admin.NodeReport {
		return &admin.NodeReport{
			ID: id, Name: id[:1], Version: "1.2.3", ClusterID: "c0ffee", Role: role, Leader: "a-1", Term: 7, Ready: true,
			HTTP: id[:1] + ":8080", Private: id[:1] + ":7000", Gossip: id[:1] + ":7946",
			Applied: applied, Commit: applied, LastLog: applied, UptimeMillis: 3_725_000,
			Requests: 1000, Commands: 500, LogBytes: 5 << 20, DiskFree: 1536 << 20, DiskSize: 4 << 30, MemoryBytes: 200 << 20, CacheBytes: 192 << 20, Open: 3,
			Settings: someSettings,
			Condition: admin.Condition{
				ClockAheadMillis: 3.2, Clocks: 3, Sync: admin.Timing{Count: 70, MeanMillis: 2.25, MostMillis: 31},
				Write: admin.Timing{Count: 50, MeanMillis: 8.5, MostMillis: 12_400}, Stall: admin.Timing{Count: 600, MeanMillis: 0.1, MostMillis: 4},
			},
		}
	}
	late := reported("b-2", "follower", 90)
	late.Ready, late.Problems = false, []string{"caught-up: applied 90 of 100", "writes are rejected: disk_full: the disks are nearly full (b)"}
	late.Warnings = []string{"its clock is 10m0s behind the median of 3 clocks"}
	late.Condition = admin.Condition{
		Rejects: "disk_full: the disks are nearly full (b)", Rejected: []admin.Rejected{{Code: "disk_full", Count: 12}, {Code: "not_enqueued", Count: 1}},
		ClockAheadMillis: -600_000, ApplyLag: 10, ApplyLagMillis: 2500, Stall: admin.Timing{Count: 1, MeanMillis: 2600, MostMillis: 2600},
	}
	leader := reported("a-1", "leader", 100)
	leader.Warnings = []string{"a flag has a name that nobody has registered"}
	late.Warnings = append(late.Warnings, leader.Warnings...)
	return admin.ClusterReport{
		ClusterID: "c0ffee", AskedNode: "b-2", Leader: "a-1",
		Servers: []admin.Server{
			{ID: "a-1", Part: admin.Voter, Alive: true, Report: leader},
			{ID: "b-2", Part: admin.Voter, Alive: true, Report: late},
			{ID: "c-3", Part: admin.Voter, Error: "c-3 is not there", Alive: true, SilentMillis: 6_200, HeardAt: 1_700_000_000_000},
			{ID: "d-4", Part: admin.Outside, Alive: true, Report: reported("d-4", "follower", 0)},
			{ID: "e-5", Part: admin.NonVoter, Alive: true, Error: "e-5 does not answer in time", SilentMillis: 34_000, HeardAt: 1_700_000_000_000},
		},
	}
}

func TestDaysText(t *testing.T) {
	set := admin.SettingsReport{Settings: command.Settings{DailyBytes: 512 << 20}, UsedBytes: 100, DayMillis: 12 * 3_600_000}
	check.Equal(t, daysText(someCluster().Servers, &set), "   disk for 3 days of the whole budget", "after a few bytes")
}

func TestMembersTable(t *testing.T) {
	report := someCluster()
	golden.Compare(t, filepath.Join("testdata", "members.txt"), membersText(&report)+"\n")
}

func TestPeersTable(t *testing.T) {
	report := someCluster()
	golden.Compare(t, filepath.Join("testdata", "peers.txt"), peersText(peersOf(&report))+"\n")
}

func TestStatusScreen(t *testing.T) {
	before, now := someCluster(), someCluster()
	now.Servers[0].Report.Requests += 300
	now.Servers[0].Report.Commands += 50
	now.Servers[0].Report.UptimeMillis += 2000
	now.Servers[3].Report.Requests = 10 // started again since
	now.Servers[3].Report.UptimeMillis = 100
	start := time.Now()
	w := watcher{before: before, now: now, earlier: start, last: start.Add(2 * time.Second)}
	golden.Compare(t, filepath.Join("testdata", "status.txt"), statusText(w.overview())+"\n")
}

func TestRejectedEverywhere(t *testing.T) {
	report := someCluster()
	check.Equal(t, rejectedEverywhere(&report), "", "one server takes writes, and the screen")
	report.Servers[0].Report.Rejects = "disk_full: no space"
	if reason := rejectedEverywhere(&report); !strings.HasPrefix(reason, "disk_full") {
		t.Errorf("no server takes writes, and the screen says %q", reason)
	}
	report.Servers[1].Report = nil
	report.Servers[0].Report.Leader, report.Servers[0].Report.Rejects = "", ""
	check.Equal(t, rejectedEverywhere(&report), "no leader is known", "there is no leader, and the screen")
	check.Contains(t, statusText((&watcher{now: report}).overview()), "WRITES ARE REJECTED: no leader is known\n", "the screen")
	report.Servers[0].Report = nil
	check.Equal(t, rejectedEverywhere(&report), "no server answers", "none answers, and the screen")
}

// TestLostQuorum: too few voters answer, and status names a page of the manual that is there.
func TestLostQuorum(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*admin.ClusterReport)
		says   string // empty for no error
	}{
		"two of three":         {func(*admin.ClusterReport) {}, ""},
		"one of three":         {func(r *admin.ClusterReport) { r.Servers[0].Report = nil }, "b-2 reaches 1 of 3 voters, itself included, and 2 are needed"},
		"others do not count":  {func(r *admin.ClusterReport) { r.Servers[0].Report, r.Servers[4].Report = nil, r.Servers[0].Report }, "1 of 3 voters"},
		"two of four":          {func(r *admin.ClusterReport) { r.Servers[4].Part = admin.Voter }, "2 of 4 voters, itself included, and 3 are needed"},
		"not in a cluster yet": {func(r *admin.ClusterReport) { r.Servers = r.Servers[3:] }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			report := someCluster()
			tc.change(&report)
			err := (&watcher{now: report}).overview().lost()
			if tc.says == "" {
				check.Err(t, err, nil, "quorum")
				return
			}
			check.ErrText(t, err, tc.says, "quorum")
			check.ErrText(t, err, quorumManual, "quorum")
		})
	}
	_, err := os.Stat(filepath.Join("..", "..", "..", quorumManual))
	check.Err(t, err, nil, "page of the manual")
}

// TestUnwell holds that status fails for each server that is not well, and not for slowness.
func TestUnwell(t *testing.T) {
	report := someCluster()
	report.Servers[1].Report.Problems = nil
	report.Servers[2].Report, report.Servers[4].Report = report.Servers[0].Report, report.Servers[0].Report
	report.Servers[3].Report = nil // outside
	check.Err(t, unwell(report.Servers), nil, "all is well")
	report.Servers[1].Report.Problems = []string{"writes are rejected: disk_full"}
	check.ErrText(t, unwell(report.Servers), "not well: b-2;", "one rejects writes")
	report.Servers[4].Report = nil
	check.ErrText(t, unwell(report.Servers), "not well: b-2, e-5;", "another does not answer")
}

func TestMillisText(t *testing.T) {
	for ms, want := range map[float64]string{0: "0.0 ms", 9.94: "9.9 ms", 10: "10 ms", 1234.5: "1234 ms", 10_000: "10s", 600_000: "10m0s"} {
		check.Equal(t, millisText(ms), want, "%g", ms)
	}
}

func TestFindServer(t *testing.T) {
	report := someCluster()
	report.Servers = append(report.Servers, admin.Server{ID: "a-9"})
	for name, want := range map[string]string{"b-2": "b-2", "b": "b-2", "a-9": "a-9", "a": "", "x": "", "b-": "", "": ""} {
		got, ok := report.Find(name)
		check.Equal(t, got.ID, want, "%q: id", name)
		check.Equal(t, ok, want != "", "%q: ok", name)
	}
}

func TestDifferences(t *testing.T) {
	silent := []admin.Digest{{ID: "n1-a", Digest: "ab", Rows: "cd"}, {ID: "n2-b", Error: "is not there"}}
	for _, tc := range []struct {
		comparison admin.Comparison
		want       []string // in this order
	}{
		{admin.Comparison{Equal: true, Digests: silent[:1]}, nil},
		{admin.Comparison{Equal: true, Digests: silent}, []string{"not every node answered"}},
		{admin.Comparison{Index: 7, Digests: silent}, []string{"differ at index 7", "save a backup of each first", "stop those"}},
	} {
		err := differences(&tc.comparison)
		if tc.want == nil {
			check.Err(t, err, nil, "%+v", tc.comparison)
			continue
		}
		if err == nil {
			t.Errorf("%+v: no error", tc.comparison)
			continue
		}
		rest := err.Error()
		for _, text := range tc.want {
			_, after, found := strings.Cut(rest, text)
			if !found {
				t.Errorf("%+v: %v, want %q", tc.comparison, err, text)
			}
			rest = after
		}
	}
}

func TestSettingsText(t *testing.T) {
	golden.Compare(t, filepath.Join("testdata", "settings.txt"), settingsText(&someSettings)+"\n")
}
