#!/usr/bin/env bash
# Attacks three real nodes as strangers would: `scripts/hostile.sh [-long] [-only "an attack"]`.
set -euo pipefail
cd "$(dirname "$0")/.."

dir="$(mktemp -d "${TMPDIR:-/tmp}/commons-hostile.XXXXXX")"
finish() {
  local code=$?
  if ((code == 0)); then
    rm -rf "$dir"
  else
    echo "data and logs are kept in $dir" >&2
  fi
}
trap finish EXIT

go build -o "$dir/commons" .
go build -o "$dir/hostile" ./scripts/hostile
"$dir/hostile" -binary "$dir/commons" -dir "$dir/run" "$@"
