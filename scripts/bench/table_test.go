// Package bench_test holds the table that scripts/bench.sh prints.
package bench_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const results = "../../docs/benchmarks/results/"

// table returns the printed table, and whether it succeeded.
func table(t *testing.T, files ...string) (string, bool) {
	t.Helper()
	printed, err := exec.Command("awk", append([]string{"-f", "table.awk", "targets.tsv"}, files...)...).CombinedOutput()
	if err != nil && len(printed) == 0 {
		t.Fatal(err)
	}
	return string(printed), err == nil
}

// measured writes a file of results.
func measured(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTable(t *testing.T) {
	cluster := string(must.Get(os.ReadFile(results + "0.1.0-cluster.txt"))(t))
	growth := string(must.Get(os.ReadFile(results + "0.1.0-growth.txt"))(t))
	state := "# 1000000 entries\nBenchmarkState/query/prefix-2         \t     100\t     80000 ns/op\t 1 p50-µs\n" +
		"# 10000000 entries\nBenchmarkState/query/prefix-2         \t     100\t     200000 ns/op\t 2 p50-µs\n"
	operations := "quiet\t10 s\t5 s CPU\tleader 232 MB\tfollower 213 MB\twrites p99 59 ms, 1\treads p99 25 ms, 1\terrors 0\n" +
		"copy and checksums\t1.92 s\t0.4 s CPU\tleader 232 MB\tfollower 208 MB\twrites p99 53 ms, 0.91\treads p99 15 ms, 0.62\terrors 0\n" +
		"quiet again\t10 s\t5 s CPU\tleader 240 MB\tfollower 220 MB\twrites p99 61 ms, 1.03\treads p99 26 ms, 1.04\terrors 0\n" +
		"join from nothing\t1.6 s\t- s CPU\tleader 250 MB\tfollower 290 MB\twrites p99 59 ms, 1.75\treads p99 15 ms, 0.59\terrors 0\n"
	for _, tc := range []struct {
		name, file, text string
		ok               bool
		rows             []string
	}{
		{"the last release", "x-cluster.txt", cluster, true, []string{
			"writes of 64 clients, of etcd's rate 0.86 >=1 0.86 missed",
			"list of 50, of static bytes 0.65 >=0.75 0.65 missed",
			"CPU of a write of 64 clients, of the binary before - <=0.72 0.85",
			"ten times the peak, of the peak 0.74 >=0.85 0.74 missed",
			"a prefix, ten times the entries - <=3 2.5",
		}},
		{"fewer writes", "x-cluster.txt", strings.ReplaceAll(cluster, "5058 requests/s", "4400 requests/s"), true, []string{"writes of 64 clients, of etcd's rate 0.84 >=1 0.86 missed"}},
		{"beside the binary before", "x-cluster.txt", strings.ReplaceAll(cluster, "/leader/64/etcd", "/leader/64/old"), false, []string{"CPU of a write of 64 clients, of the binary before 1.38 <=0.72 0.85 worse than before"}},
		{"far fewer", "x-cluster.txt", strings.NewReplacer("4957 requests/s", "4400 requests/s", "5058 requests/s", "4400 requests/s").Replace(cluster), false, []string{"writes of 64 clients, of etcd's rate 0.75 >=1 0.86 worse than before"}},
		{"many entries", "x-growth.txt", growth, true, []string{
			"two words, many entries of few 5.77 <=2.5 5.77 missed",
			"start, many entries of few 0.97 <=1.2 0.97",
		}},
		{"a slow search", "x-growth.txt", strings.ReplaceAll(growth, "8.847 p50-ms", "12.4 p50-ms"), false, []string{"two words, many entries of few 6.98 <=2.5 5.77 worse than before"}},
		{"a state", "x-state.txt", state, true, []string{"a prefix, ten times the entries 2.50 <=3 2.5"}},
		{"operations", "x-operations.txt", operations, true, []string{
			"join from nothing, of the speed of a copy 1.20 >=0.5 1.20",
			"join from nothing, p99 of writes 1.75 <=1.5 - missed",
			"join from nothing, p99 of reads 0.59 <=1.3 -",
			"join from nothing, MB more 58.00 <=100 -",
		}},
		{"an operation without a goal", "x-operations.txt", strings.ReplaceAll(operations, "join from nothing", "dance"), false, []string{"dance, MB more: 58.00, and no goal"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			printed, ok := table(t, measured(t, tc.file, tc.text))
			check.Equal(t, ok, tc.ok, "no ratio is worse")
			var rows []string
			for line := range strings.Lines(printed) {
				rows = append(rows, strings.Join(strings.Fields(line), " "))
			}
			for _, row := range tc.rows {
				check.Contains(t, "\n"+strings.Join(rows, "\n")+"\n", "\n"+row+"\n", "the table")
			}
		})
	}
}
