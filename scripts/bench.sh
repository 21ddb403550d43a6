#!/usr/bin/env bash
# Measures the parts inside the process and a cluster of three, for benchstat.
#
#   scripts/bench.sh [--count N] [--time D] [--only parts|cluster|growth|state|operations|table]
#                    [--old BINARY] [--etcd BINARY --etcd-benchmark BINARY] [--entries N] [name]
#
# Writes docs/benchmarks/results/NAME-parts.txt and NAME-cluster.txt, and with --only one of:
#
#   growth      a cluster of at least 10,000 entries and of at least --entries (1,000,000)
#   state       the state of so many entries in one process, and of ten times as many
#   operations  time, CPU and memory of operations on a cluster of so many entries, and the
#               latency of writes and reads meanwhile
#   table       only the table of the files of that name
#
# At the end it prints the ratios beside the goals of scripts/bench/targets.tsv, and fails if one
# is worse by more than a tenth than the one noted there. The name is the commit if it is not
# given. --count is how often each is measured (6), --time how long each time (1s for a part,
# ten times as long for the cluster). --old and --etcd measure another build of commons and etcd
# beside this one, in turns, and print ratios. Writes during which others take more than 0.3 of a
# core are measured again, and discarded after three attempts. Needs jq, curl, a quiet machine, and
# the ports from COMMONS_BENCH_PORT (8480) on.
set -euo pipefail
cd "$(dirname "$0")/.."

count=6 seconds=1 entries=1000000 only='' old='' etcd='' etcd_benchmark=''
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --count) count="$2" ;;
    --time) seconds="${2%s}" ;;
    --only) only="$2" ;;
    --entries) entries="$2" ;;
    --old) old="$2" ;;
    --etcd) etcd="$2" ;;
    --etcd-benchmark) etcd_benchmark="$2" ;;
    *)
      echo "bench: no such flag: $1" >&2
      exit 2
      ;;
  esac
  shift 2
done
name="${1:-$(git rev-parse --short HEAD)}"
out=docs/benchmarks/results
mkdir -p "$out"
export -n COMMONS_BENCH_PORT # commons rejects variables that it does not know
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-bench.XXXXXX")"
declare -A nodes # the processes of each cluster
started=()
load=() # the processes that send requests during an operation
suspended=() # a stopped node, which would not end
stop() { # <process ...>: by SIGKILL after a minute
  local pid deadline=$((SECONDS + 60))
  kill -INT "$@" 2>/dev/null || true
  for pid in "$@"; do
    while kill -0 "$pid" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.1; done
    if kill -0 "$pid" 2>/dev/null; then
      echo "bench: process $pid did not end after SIGINT" >&2
      kill -KILL "$pid" || true
    fi
    wait "$pid" || true
  done
}
finish() {
  if ((${#suspended[@]} > 0)); then kill -CONT "${suspended[@]}" 2>/dev/null || true; fi
  stop "${started[@]}" "${load[@]}"
  rm -rf "$work"
}
trap finish EXIT

header() { # what benchstat puts above its columns
  printf 'commit: %s%s\n' "$(git rev-parse --short HEAD)" "$(git diff --quiet HEAD || echo ' and changes')"
  printf 'cpu: %s\n' "$(sed -n '/^model name/{s/.*: //p;q}' /proc/cpuinfo 2>/dev/null || true)"
  printf 'load: %s\n' "$(uptime | sed 's/.*load average[s]*: //')"
}

parts() {
  local packages
  packages="$(git grep -l '^func Benchmark' -- '*_test.go' ':!node/integration' | xargs -n 1 dirname | sort -u | sed 's|^|./|')"
  {
    header
    # One package after the other: two at once would disturb each other.
    # shellcheck disable=SC2086 # a list of packages
    go test -run '^$' -bench . -benchmem -count "$count" -benchtime "${seconds}s" -timeout 0 -p 1 $packages
  } | tee "$out/$name-parts.txt"
}

ready() { # <url> <log>
  for _ in {1..120}; do
    curl -sf "$1" >/dev/null && return
    sleep 0.5
  done
  echo "bench: $1 is not ready" >&2
  tail -n 20 "$2" >&2
  return 1
}

build() {
  echo "bench: building commons and its load: the first time, that takes a minute or two" >&2
  go build -o "$work/commons" .
  go build -o "$work/bench" ./scripts/bench/cmd
}

start_commons() { # <name> <binary> <port> [flag of serve ...]
  local port="$3" i
  "$2" dev --data-dir "$work/$1" --http-port "$port" --cluster-port $((port + 10)) --gossip-port $((port + 20)) \
    -- --address-read-work 0 "${@:4}" >"$work/$1.log" 2>&1 &
  started+=($!)
  for i in 0 1 2; do ready "http://127.0.0.1:$((port + i))/readyz" "$work/$1.log"; done
  "$2" settings set daily-bytes=0 sender-bytes=0 --yes --cluster-addr "127.0.0.1:$((port + 10))" --secret-file "$work/$1/secret" >>"$work/$1.log" 2>&1
  nodes[$1]="$(pgrep -d ' ' -P "${started[-1]}")"
}

start_etcd() { # <port>
  local port="$1" i members=''
  for i in 0 1 2; do members+="${members:+,}n$i=http://127.0.0.1:$((port + 10 + i))"; done
  for i in 0 1 2; do
    "$etcd" --name "n$i" --data-dir "$work/etcd$i" --log-level error --initial-cluster "$members" \
      --listen-client-urls "http://127.0.0.1:$((port + i))" --advertise-client-urls "http://127.0.0.1:$((port + i))" \
      --listen-peer-urls "http://127.0.0.1:$((port + 10 + i))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 10 + i))" >"$work/etcd$i.log" 2>&1 &
    started+=($!)
    nodes[etcd]+=" $!"
  done
  for i in 0 1 2; do ready "http://127.0.0.1:$((port + i))/health" "$work/etcd$i.log"; done
}

cpu() { # <name>: milliseconds that its processes have used
  local pid total=0
  for pid in ${nodes[$1]}; do
    total=$((total + $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | awk '{ms = ($12 + $13) * 10} END {print ms + 0}')))
  done
  echo "$total"
}

nodes_of() { # <port> leader|followers|follower|all: URLs
  local url role picked=()
  for url in "http://127.0.0.1:$1" "http://127.0.0.1:$(($1 + 1))" "http://127.0.0.1:$(($1 + 2))"; do
    role="$(curl -s -m 2 "$url/status" | jq -r .role)"
    if [[ "$2" == all || "${2%s}" == "$role" ]]; then picked+=("$url"); fi
  done
  if [ "$2" = follower ]; then picked=("${picked[0]}"); fi
  (
    IFS=,
    echo "${picked[*]}"
  )
}

measure() { # <cluster> <port> <title> <nodes> <connections> <mode> [flag ...]
  local name="$1" row="$3/$4/$5" urls
  urls="$(nodes_of "$2" "$4")"
  shift 4
  line "Benchmark$row/$name" "$name" "$urls" "$@"
}

line() { # <row> <whose processes> <URLs> <connections> <mode> [flag ...]: one line of the format of Go's benchmarks
  local row="$1" of="$2" urls="$3" connections="$4" mode="$5" before
  shift 5
  before="$(cpu "$of")"
  "$work/bench" "$mode" --url "$urls" --connections "$connections" --duration "$((10 * seconds))s" "$@" >"$work/report"
  jq -r --arg row "$row" --argjson cpu $(($(cpu "$of") - before)) '
    (.latencyMs | to_entries | max_by(.value.requests) | .value) as $latency
    | if .errors > 0 then error("\(.errors) errors") else . end
    | "\($row)\t\(.requests)\t\(1e9 / .requestsPerSecond | round) ns/op\t\(.requestsPerSecond | round) requests/s"
      + "\t\($latency.p50) p50-ms\t\($latency.p99) p99-ms\t\($cpu * 1000 / .requests | round) cpu-us/op"' "$work/report"
}

idle() { # <cluster>: what its three nodes use when nothing is asked of them
  local before
  sleep 5 # after the start
  before="$(cpu "$1")"
  sleep "$((10 * seconds))"
  awk -v name="$1" -v used=$(($(cpu "$1") - before)) -v of=$((10000 * seconds)) 'BEGIN { printf "# Idle/%s: %.1f %% of a core, all three nodes\n", name, 100 * used / of }'
}

overload() { # <cluster> <port>: writes ten times as often as 256 clients get answers
  local cluster="$1" port="$2" peak
  peak="$(awk -v row="BenchmarkWrite/leader/256/$1" -F'\t' '$1 == row && $4 + 0 > most { most = $4 + 0 } END { print most }' "$out/$name-cluster.txt")"
  if [ -z "$peak" ]; then
    echo "# Overload/$cluster: not measured without quiet writes of 256 clients"
    return
  fi
  "$work/bench" write --url "$(nodes_of "$port" all)" --connections 4000 --rate "$((10 * peak))" --duration "$((10 * seconds))s" >"$work/report" || true
  jq -r --arg name "$cluster" --argjson peak "$peak" '
    (.durationMs / 1000) as $s | (.statuses["201"] // 0) as $written
    | "# Overload/\($name): \($written / $s | round) writes/s, \($written / $s / $peak * 100 | round) % of the peak; p99 of those written \([.latencyMs[]] | max_by(.requests) | .p99) ms; answers \(.statuses), without an answer \(.failures)"' "$work/report"
}

beside() { # <cluster> <port>: lists while 256 clients write, and writes while 64 clients read lists
  local name="$1" port="$2" url pid
  url="$(nodes_of "$port" follower)"
  "$work/bench" write --url "$(nodes_of "$port" leader)" --connections 256 --duration "$((10 * seconds + 2))s" >"$work/beside" &
  pid=$!
  sleep 1
  measure "$name" "$port" ListBesideWrites follower 16 list
  wait "$pid"
  "$work/bench" list --url "$url" --connections 64 --duration "$((10 * seconds + 2))s" >"$work/beside" &
  pid=$!
  sleep 1
  measure "$name" "$port" WriteBesideLists leader 64 write
  wait "$pid"
}

start_static() { # <port of the cluster> <port>: a server that answers everything with the bytes of a list
  "$work/bench" static --url "http://127.0.0.1:$1/api/entries?limit=50" --listen "127.0.0.1:$2" >"$work/static.log" 2>&1 &
  nodes[static]="$!"
  # Of the subshell of the pipe: finish does not know it.
  trap 'kill "${nodes[static]}" 2>/dev/null || true' EXIT
  ready "http://127.0.0.1:$2/" "$work/static.log"
}

others() { # <process>: milliseconds that neither our processes nor the ended ones of this process have used
  local name own=0 busy
  for name in "${!nodes[@]}"; do own=$((own + $(cpu "$name"))); done
  own=$((own + $(sed 's/.*) //' "/proc/$1/stat" | awk '{printf "%.0f", ($12 + $13 + $14 + $15) * 10}')))
  busy="$(awk '/^cpu / {printf "%.0f", ($2 + $3 + $4 + $7 + $8 + $9) * 10}' /proc/stat)"
  echo $((busy - own))
}

quietly() { # <command ...>: its lines, of a run during which others took at most 0.3 of a core
  local attempt before begun share self="$BASHPID"
  for attempt in 1 2 3; do
    before="$(others "$self")" begun="$(date +%s%3N)"
    "$@" >"$work/lines"
    share=$((100 * ($(others "$self") - before) / ($(date +%s%3N) - begun)))
    if ((share <= 30)); then
      cat "$work/lines"
      return
    fi
    sed "s/^/# attempt $attempt, others took $share % of a core: /" "$work/lines"
  done
}

writes() { # <nodes>/<clients>: at every system
  local k
  for k in "${!systems[@]}"; do measure "${systems[k]}" "${ports[k]}" Write "${1%/*}" "${1#*/}" write; done
  if [[ -n "$etcd" && "$1" == leader/* ]]; then measure_etcd "$etcd_port" "${1#*/}"; fi
}

etcd_leader() { # <port>: its address
  local port
  for port in "$1" $(($1 + 1)) $(($1 + 2)); do
    if curl -s -m 2 -d '{}' "http://127.0.0.1:$port/v3/maintenance/status" | jq -e '.leader == .header.member_id' >/dev/null; then
      echo "127.0.0.1:$port"
      return
    fi
  done
  return 1
}

measure_etcd() { # <port> <connections>: puts of 1,000 bytes to etcd's leader
  local before total=$((($2 == 1 ? 500 : 3000) * 10 * seconds)) used
  before="$(cpu etcd)"
  "$etcd_benchmark" --endpoints "$(etcd_leader "$1")" --conns "$2" --clients "$2" \
    put --sequential-keys --key-size 16 --key-space-size "$total" --val-size 1000 --total "$total" >"$work/etcd-report" 2>&1
  used=$(($(cpu etcd) - before))
  awk -v name="BenchmarkWrite/leader/$2/etcd" -v total="$total" -v cpu="$used" '
    /Requests\/sec/ { rate = $2 } /50% in/ { p50 = $3 * 1000 } /99% in/ { p99 = $3 * 1000 }
    END { printf "%s\t%d\t%d ns/op\t%d requests/s\t%.3f p50-ms\t%.3f p99-ms\t%d cpu-us/op\n", name, total, 1e9 / rate, rate, p50, p99, cpu * 1000 / total }' "$work/etcd-report"
}

ratios() { # of the medians, beside the other systems'
  awk -F'\t' '
    /^Benchmark/ { split($4, r, " "); split($7, c, " "); rate[$1] = rate[$1] " " r[1]; cost[$1] = cost[$1] " " c[1] }
    function median(list, n, v, i, j, x) {
      n = split(list, v, " ")
      for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
      return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    END {
      for (name in rate) if (name !~ /\/new$/) {
        row = name; sub(/\/[a-z]*$/, "", row); ours = row "/new"
        if (ours in rate) printf "# %s: %.2f of the rate, %.2f of the CPU\n", name, median(rate[ours]) / median(rate[name]), median(cost[ours]) / median(cost[name])
      }
    }' "$1" | sort
}

cluster() {
  local base="${COMMONS_BENCH_PORT:-8480}" i k to
  local systems=(new) ports=("$base")
  build
  start_commons new "$work/commons" "$base"
  if [ -n "$old" ]; then
    start_commons old "$old" $((base + 60))
    systems+=(old) ports+=($((base + 60)))
  fi
  local etcd_port=$((base + 120))
  if [ -n "$etcd" ]; then start_etcd "$etcd_port"; fi
  {
    header
    printf 'pkg: scripts/bench, 3 nodes, entries of 1,000 bytes\n'
    for k in "${!systems[@]}"; do idle "${systems[k]}"; done
    for ((i = 0; i < count; i++)); do
      for to in leader/1 leader/64 leader/256 follower/1 followers/64; do
        quietly writes "$to"
      done
      if ((i == 0)); then
        printf '# Memory/new: %d MB of the largest node after %d writes\n' "$(memory new)" "$(curl -s "http://127.0.0.1:$base/api/stats" | jq .last7d.posts)"
        start_static "$base" $((base + 50))
      fi
      line BenchmarkList/follower/64/static static "http://127.0.0.1:$((base + 50))" 64 list
      for k in "${!systems[@]}"; do
        measure "${systems[k]}" "${ports[k]}" WriteMCP all 64 write --mcp
        measure "${systems[k]}" "${ports[k]}" List follower 64 list
        measure "${systems[k]}" "${ports[k]}" Search follower 64 search
        measure "${systems[k]}" "${ports[k]}" Home follower 64 home
        measure "${systems[k]}" "${ports[k]}" Poll follower 64 poll
        measure "${systems[k]}" "${ports[k]}" Mixed all 64 mixed
      done
    done
    for k in "${!systems[@]}"; do beside "${systems[k]}" "${ports[k]}"; done
    for k in "${!systems[@]}"; do overload "${systems[k]}" "${ports[k]}"; done
  } | tee "$out/$name-cluster.txt"
  ratios "$out/$name-cluster.txt"
}

memory() { # <name>: MB of anonymous memory of its largest process
  local pid
  for pid in ${nodes[$1]}; do awk '/^RssAnon/ { print int($2 / 1024) }' "/proc/$pid/status"; done | sort -n | tail -n 1
}

growth() { # the same measurements with few entries and with many
  local port="${COMMONS_BENCH_PORT:-8480}" count begun results tee
  build
  start_commons new "$work/commons" "$port"
  exec {results}> >(tee "$out/$name-growth.txt") # no pipe: finish has to know what is started here
  tee=$!
  {
    header
    for count in 10000 "$entries"; do
      "$work/bench" write --url "$(nodes_of "$port" leader)" --connections 256 --fill "$count" --duration 1s >"$work/report"
      count="$(curl -s "http://127.0.0.1:$port/api/stats" | jq .last7d.posts)"
      printf '# %s entries\n' "$count"
      measure new "$port" List follower 16 list
      measure new "$port" Search follower 16 search
      measure new "$port" Home follower 16 home
      stop "${started[@]}"
      started=()
      awk -v bytes="$(du -sb "$work/new" | cut -f 1)" -v count="$count" 'BEGIN { printf "# disk of all three nodes: %d bytes an entry\n", bytes / count }'
      begun="$(date +%s%N)"
      start_commons new "$work/commons" "$port"
      printf '# stopped and started again, ready after %d ms\n' "$((($(date +%s%N) - begun) / 1000000))"
      printf '# the largest node has %d MB of anonymous memory\n' "$(memory new)"
      measure new "$port" Search follower 16 search
      "$work/bench" search --url "$(nodes_of "$port" follower)" --connections 16 --duration "$((20 * seconds))s" >"$work/report"
      measure new "$port" SearchAgain follower 16 search # most that it reads is in the cache now
      printf '# after these searches: %d MB\n' "$(memory new)"
      measure new "$port" Write leader 256 write
    done
    stop "${started[@]}" # they hold the pipe
    started=()
  } >&"$results"
  exec {results}>&-
  wait "$tee"
}

state() { # most of the time goes into filling it
  local many
  {
    header
    for many in "$entries" $((10 * entries)); do
      printf '# %s entries\n' "$many"
      COMMONS_BENCH_ENTRIES="$many" go test ./fsm -run '^$' -bench '^BenchmarkState$' -benchmem -benchtime "${seconds}s" -timeout 0
    done
  } | tee "$out/$name-state.txt"
}

process() { # <name> <index>: of a node of commons dev
  pgrep -f -- "--data-dir $work/$1/n$2 "
}

during() { # <row> <command ...>: one row of the operations
  local row="$1" port="${COMMONS_BENCH_PORT:-8480}" leader follower writes reads begun before took
  shift
  leader="$(nodes_of "$port" leader)" follower="$(nodes_of "$port" follower)"
  writes="$leader" reads="$follower"
  if [ "$row" = 'rolling restart' ]; then # clients go on to another node
    writes="$(nodes_of "$port" all)"
    reads="$writes"
  fi
  "$work/bench" write --url "$writes" --connections 16 --rate 200 --pid "$(process new $((${leader##*:} - port + 1)))" --duration 10h >"$work/writes" &
  load=($!)
  "$work/bench" list --url "$reads" --connections 16 --rate 200 --pid "$(process new $((${follower##*:} - port + 1)))" --duration 10h >"$work/reads" &
  load+=($!)
  sleep 1
  nodes[new]="$(pgrep -d ' ' -P "${started[0]}")" # some may have started again
  before="$(cpu new)" begun="$(date +%s%N)"
  "$@" >"$work/operation.log" 2>&1 || { echo "# $row failed:" && sed 's/^/#   /' "$work/operation.log"; }
  took=$((($(date +%s%N) - begun) / 1000000))
  stop "${load[@]}"
  load=()
  jq -rn --arg row "$row" --argjson ms "$took" --argjson cpu $(($(cpu new) - before)) --argjson entries "$entries" \
    --slurpfile w "$work/writes" --slurpfile r "$work/reads" --slurpfile q "$work/quiet" '
    def p99: [.latencyMs[]] | max_by(.requests) | .p99;
    ($w[0] | p99) as $writes | ($r[0] | p99) as $reads | ($q[0] // {writes: $writes, reads: $reads}) as $quiet
    | "\($row)\t\($ms / 1000) s\t\(if $cpu < 0 then "-" else $cpu / 1000 end) s CPU\tleader \($w[0].peakRssAnonMB | round) MB\tfollower \($r[0].peakRssAnonMB | round) MB"
      + "\twrites p99 \($writes) ms, \($writes / $quiet.writes * 100 | round / 100)\treads p99 \($reads) ms, \($reads / $quiet.reads * 100 | round / 100)\terrors \($w[0].errors + $r[0].errors)"'
  if [ "$row" = quiet ]; then
    jq -n --slurpfile w "$work/writes" --slurpfile r "$work/reads" 'def p99: [.latencyMs[]] | max_by(.requests) | .p99; {writes: ($w[0] | p99), reads: ($r[0] | p99)}' >"$work/quiet.new"
    mv "$work/quiet.new" "$work/quiet"
  fi
}

join_cluster() { # a fourth node, from nothing
  local port="${COMMONS_BENCH_PORT:-8480}"
  "$work/commons" serve --node-id n4 --data-dir "$work/n4" --http-addr "127.0.0.1:$((port + 3))" --cluster-addr "127.0.0.1:$((port + 13))" \
    --gossip-addr "127.0.0.1:$((port + 23))" --join "127.0.0.1:$((port + 20))" --non-voter --secret-file "$work/new/secret" >"$work/n4.log" 2>&1 &
  started+=($!)
  ready "http://127.0.0.1:$((port + 3))/readyz" "$work/n4.log"
}

copy_state() { # for comparison with a join
  cp -r "$work/new/n1" "$work/copy" && find "$work/copy" -type f -exec sha256sum {} + && rm -r "$work/copy"
}

scheduled_backup() { # by the leader, to a directory, and read back
  mkdir "$work/store"
  "$work/commons" settings set "backup.url=file://$work/store" --yes "${control[@]}"
  until "$work/commons" settings show --json "${control[@]}" | jq -e '.backup.began > 0' >/dev/null; do sleep 0.5; done
  "$work/commons" settings show --json "${control[@]}" | jq -e '.backup.saved > 0'
}

purge_entries() { # until no disk holds their texts
  seq -f 'e%.0f' 1000 | xargs -n 100 "$work/commons" mod purge "${control[@]}" --yes --reason measurement
  until "$work/commons" status --json "${control[@]}" | jq -e '[.servers[].report.purges | .known == .state and .known == .log] | all' >/dev/null; do sleep 0.5; done
}

suspend_follower() { # until the others have cut their logs behind it
  local port="${COMMONS_BENCH_PORT:-8480}" url
  url="$(nodes_of "$port" followers)"
  url="${url##*,}" # the node that the commands ask is the first
  behind=$((${url##*:} - port)) # its index
  suspended=("$(process new $((behind + 1)))")
  kill -STOP "${suspended[@]}"
  "$work/bench" write --url "$(nodes_of "$port" leader)" --connections 16 --duration "${seconds}s" >"$work/report"
  "$work/commons" mod purge "${control[@]}" --yes --reason measurement ezz
  until "$work/commons" status --json "${control[@]}" | jq -e '[.servers[].report.purges | select(.) | .known == .state and .known == .log] | all' >/dev/null; do sleep 0.5; done
}

resume_follower() { # and wait until it has the state
  local port="${COMMONS_BENCH_PORT:-8480}" leader index
  leader="$(nodes_of "$port" leader)"
  index="$(curl -s "$leader/status" | jq .appliedIndex)"
  kill -CONT "${suspended[@]}"
  suspended=()
  until curl -s "http://127.0.0.1:$((port + behind))/status" | jq -e ".appliedIndex >= $index" >/dev/null; do sleep 0.05; done
}

rolling_restart() {
  local port="${COMMONS_BENCH_PORT:-8480}" i pid
  for i in 1 2 3; do
    pid="$(process new "$i")"
    kill -INT "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    ready "http://127.0.0.1:$((port + i - 1))/readyz" "$work/new.log"
  done
}

sweep() { # all that was written before the clocks went ahead, by a retention of a day
  local port="${COMMONS_BENCH_PORT:-8480}" i
  "$work/commons" settings set retention=1d --yes "${control[@]}"
  for ((i = 0; i < 6000; i++)); do
    if curl -s "http://127.0.0.1:$port/metrics" | awk -v most="$((entries / 2))" '/^commons_retention_swept_entries/ { swept = $2 } /^commons_retention_waiting_entries/ { waiting = $2 } END { exit !(swept >= most && waiting == 0) }'; then return; fi
    sleep 0.2
  done
  return 1
}

operations() {
  local port="${COMMONS_BENCH_PORT:-8480}" results tee
  control=(--cluster-addr "127.0.0.1:$((port + 10))" --secret-file "$work/new/secret")
  build
  start_commons new "$work/commons" "$port"
  "$work/bench" write --url "$(nodes_of "$port" leader)" --connections 256 --fill "$entries" --duration 1s >"$work/report"
  : >"$work/quiet"
  exec {results}> >(tee "$out/$name-operations.txt") # no pipe: finish has to know what is started here
  tee=$!
  {
    header
    printf '# %s entries, 200 writes and 200 lists a second meanwhile; state of a node: %s\n' "$entries" "$(du -sh "$work/new/n1" | cut -f 1)"
    during quiet sleep $((10 * seconds))
    during 'copy and checksums' copy_state
    during 'join from nothing' join_cluster
    during 'snapshot save' "$work/commons" snapshot save "$work/backup" "${control[@]}" --timeout 1h
    during 'snapshot restore' "$work/commons" snapshot restore "$work/backup" --data-dir "$work/restored" --node-id r1 --secret-file "$work/new/secret" --purged-from "127.0.0.1:$((port + 10))"
    during 'scheduled backup' scheduled_backup
    during digest "$work/commons" digest "${control[@]}" --timeout 1h
    during 'purge of 1,000' purge_entries
    suspend_follower >"$work/operation.log" 2>&1
    during 'snapshot to a lagging follower' resume_follower
    during 'rolling restart' rolling_restart
    during 'quiet again' sleep $((10 * seconds))
    stop "${started[@]}"
    started=()
    start_commons new "$work/commons" "$port" --clock-offset 48h
    during 'retention sweep' sweep
    stop "${started[@]}" # they hold the pipe
    started=()
  } >&"$results"
  exec {results}>&-
  wait "$tee"
}

case "$only" in
  '') parts && cluster ;;
  parts | cluster | growth | state | operations) "$only" ;;
  table) ;;
  *)
    echo "bench: --only parts, cluster, growth, state, operations or table" >&2
    exit 2
    ;;
esac
files=()
for part in cluster growth state operations; do
  if [ -f "$out/$name-$part.txt" ]; then files+=("$out/$name-$part.txt"); fi
done
awk -f scripts/bench/table.awk scripts/bench/targets.tsv "${files[@]}"
