# Prints the ratios of a measurement beside their goals, and fails where one is worse by more
# than a tenth than the one noted with the goal:
#
#   awk -f table.awk targets.tsv NAME-cluster.txt NAME-growth.txt ...
#
# A line of targets.tsv is a row, its goal, and the ratio of the last release, "-" without one.
# A row that was not measured is printed without a ratio, and cannot fail.
BEGIN { FS = "\t" }

FNR == 1 { file++; section = "" } # of few entries, or of many

file == 1 && !/^#/ && NF == 3 { rows[++count] = $1; goal[$1] = $2; before[$1] = $3 }
file == 1 { next }

FILENAME ~ /-operations.txt$/ && / s CPU/ { operation(); next }

/^# [0-9]+ entries/ { section = section == "" ? "few" : "many"; next }
/^# stopped and started again/ { note("ready", number($0, "after ")); next }
/^# the largest node has/ { note("memory", number($0, "has ")); next }
/^# Memory\/new/ { value["MB of the largest node after a round of writes"] = number($0, ": "); next }
/^# Overload\/new/ {
  value["ten times the peak, of the peak"] = number($0, "writes/s, ") / 100
  value["ten times the peak, p99 in seconds"] = number($0, "written ") / 1000
  next
}
/^BenchmarkState/ {
  row = $1
  sub(/-[0-9]+ *$/, "", row)
  note(row, $3 + 0)
  next
}
/^Benchmark/ { for (i = 3; i <= NF; i++) { split($i, figure, " "); note($1 " " figure[2], figure[1]) } }

function number(text, after) { return match(text, after) ? substr(text, RSTART + RLENGTH) + 0 : 0 }

function note(what, figure) { list[section, what] = list[section, what] " " figure }

function median(what, of,   v, n, i, j, x) {
  n = split(list[of, what], v, " ")
  if (n == 0) return 0
  for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
  return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function ratio(row, one, other, of, with) { # of medians
  if (median(one, of) && median(other, with)) value[row] = median(one, of) / median(other, with)
}

function grows(row, what) { ratio(row, what, what, "many", "few") }

function operation(   i, memory, writes, reads) {
  for (i = 2; i <= NF; i++) {
    if ($i ~ /^(leader|follower) /) memory = number($i, "r ") > memory ? number($i, "r ") : memory
    if ($i ~ /^writes p99/) writes = number($i, ", ")
    if ($i ~ /^reads p99/) reads = number($i, ", ")
  }
  if ($1 ~ /^quiet/) { if ($1 == "quiet") quiet = memory; return }
  if ($1 == "copy and checksums") { copied = $2 + 0; return }
  if ($1 == "join from nothing" && $2 + 0) value["join from nothing, of the speed of a copy"] = copied / ($2 + 0)
  value[$1 ", p99 of writes"] = writes
  value[$1 ", p99 of reads"] = reads
  value[$1 ", MB more"] = memory - quiet
}

END {
  split("1 64 256", clients, " ")
  for (i = 1; i <= 3; i++) {
    by = clients[i] (i == 1 ? " client" : " clients")
    of = "BenchmarkWrite/leader/" clients[i]
    ratio("writes of " by ", of etcd's rate", of "/new requests/s", of "/etcd requests/s")
    ratio("writes of " by ", p99 of etcd's", of "/new p99-ms", of "/etcd p99-ms")
  }
  ratio("CPU of a write of 64 clients, of the binary before", "BenchmarkWrite/leader/64/new cpu-us/op", "BenchmarkWrite/leader/64/old cpu-us/op")
  ratio("list of 50, of static bytes", "BenchmarkList/follower/64/new requests/s", "BenchmarkList/follower/64/static requests/s")
  ratio("64 clients through followers, of the leader's rate", "BenchmarkWrite/followers/64/new requests/s", "BenchmarkWrite/leader/64/new requests/s")
  ratio("home, of a list", "BenchmarkHome/follower/64/new requests/s", "BenchmarkList/follower/64/new requests/s")
  grows("two words, many entries of few", "BenchmarkSearch/follower/16/new p50-ms")
  grows("two words again, many entries of few", "BenchmarkSearchAgain/follower/16/new p50-ms")
  grows("start, many entries of few", "ready")
  grows("memory after a start, many entries of few", "memory")
  grows("two rare words, ten times the entries", "BenchmarkState/query/two_rare_words")
  grows("a prefix, ten times the entries", "BenchmarkState/query/prefix")
  grows("a list far back, ten times the entries", "BenchmarkState/list50/channel+old")
  printf "%-56s %8s %8s %8s\n", "", "measured", "goal", "before"
  for (i = 1; i <= count; i++) {
    row = rows[i]; most = goal[row] ~ /^<=/; wanted = substr(goal[row], 3) + 0; says = ""
    if (!(row in value)) { printf "%-56s %8s %8s %8s\n", row, "-", goal[row], before[row]; continue }
    if (most ? value[row] > wanted : value[row] < wanted) says = "missed"
    if (before[row] != "-" && (most ? value[row] > before[row] * 1.1 : value[row] < before[row] * 0.9)) { says = "worse than before"; worse = 1 }
    printf "%-56s %8.2f %8s %8s %s\n", row, value[row], goal[row], before[row], says
    known[row] = 1
  }
  for (row in value) if (!(row in known)) { printf "%s: %.2f, and no goal\n", row, value[row]; worse = 1 }
  exit worse
}
