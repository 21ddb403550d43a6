#!/usr/bin/env bash
# Measures the parts inside the process and a cluster of three, for benchstat.
#
#   scripts/bench.sh [--count N] [--time D] [--only parts|cluster] [name]
#
# Writes docs/benchmarks/results/NAME-parts.txt and NAME-cluster.txt; the name is
# the commit if none is given. --count is how often each is measured (6), --time how
# long each time (1s for a part, ten times as long for the cluster). Needs jq, curl,
# a quiet machine, and the ports of `commons dev`, 8480 and above.
set -euo pipefail
cd "$(dirname "$0")/.."

count=6 seconds=1 only=''
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --count) count="$2" ;;
    --time) seconds="${2%s}" ;;
    --only) only="$2" ;;
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
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-bench.XXXXXX")"
cluster=''
finish() {
  if [ -n "$cluster" ]; then
    kill -INT "$cluster" 2>/dev/null || true
    wait "$cluster" || true
  fi
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

urls=http://127.0.0.1:8480,http://127.0.0.1:8481,http://127.0.0.1:8482

cluster() {
  go build -o "$work/commons" .
  "$work/commons" dev --data-dir "$work/data" --http-port 8480 --cluster-port 8490 --gossip-port 8500 >"$work/dev.log" 2>&1 &
  cluster=$!
  local url ready
  for url in ${urls//,/ }; do
    for ready in {1..120}; do
      curl -sf "$url/readyz" >/dev/null && break
      if ((ready == 120)); then
        echo "bench: $url is not ready" >&2
        tail -n 20 "$work/dev.log" >&2
        exit 1
      fi
      sleep 0.5
    done
  done
  {
    header
    printf 'pkg: commons bench, 3 nodes, 64 connections, entries of 1,000 bytes\n'
    for ((i = 0; i < count; i++)); do
      measure Write write
      measure WriteMCP write --surface mcp
      measure List list
      measure Search search
      measure Mixed mixed
    done
  } | tee "$out/$name-cluster.txt"
}

measure() { # <name> <mode> [flag ...]: one line of the format of Go's benchmarks
  local title="$1" mode="$2"
  shift 2
  "$work/commons" bench "$mode" --url "$urls" --duration "$((10 * seconds))s" --json "$@" | jq -r --arg name "Benchmark$title" '
    (.latencyMs | to_entries | max_by(.value.requests) | .value) as $latency
    | if .errors > 0 then error("\(.errors) errors") else . end
    | "\($name)\t\(.requests)\t\(1e9 / .requestsPerSecond | round) ns/op\t\(.requestsPerSecond | round) requests/s"
      + "\t\($latency.p50) p50-ms\t\($latency.p99) p99-ms"'
}

case "$only" in
  '') parts && cluster ;;
  parts | cluster) "$only" ;;
  *)
    echo "bench: --only parts or --only cluster" >&2
    exit 2
    ;;
esac
