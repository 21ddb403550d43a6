#!/usr/bin/env bash
# Runs the tests of clusters in which leaders die beside four busy processes for each processor and
# a busy disk: deadlines that only hold on a quiet machine show here.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly most=15m # the load ends after this time, even if this script is killed
built="$(mktemp -d)"
busy=()
finish() {
  local code=$?
  kill "${busy[@]}" 2>/dev/null || true # the time of some may be over
  wait "${busy[@]}" || true             # their code is that of the signal
  rm -rf "$built"
  return "$code"
}
trap finish EXIT

echo "loaded: building the tests, which run beside $((4 * $(nproc))) busy processes" >&2
go test -c -vet=off -o "$built/integration.test" ./node/integration
for ((number = 0; number < 4 * $(nproc); number++)); do
  timeout --foreground "$most" bash -c 'while :; do :; done' &
  busy+=($!)
done
timeout --foreground "$most" bash -c "while dd if=/dev/zero of='$built/busy' bs=1M count=8 conv=fsync status=none; do :; done" &
busy+=($!)
cd node/integration
"$built/integration.test" -test.v -test.short -test.run 'Leader|Selection|Kill|Restart' -test.timeout 14m
