#!/usr/bin/env bash
# Runs three nodes for a long time with 50 writes and 200 reads a second, a retention, purges,
# backups that are restored as a check, and rolling restarts, all at short intervals, and fails
# if memory, descriptors, goroutines or files grow over the last half. Prints a table and CSV.
#
#   scripts/soak.sh [-for 100m]      # -for 72h before a release; nothing else should run beside it
#
# The binary counts the days of the retention as minutes: only the compiler sees that change.
set -euo pipefail
cd "$(dirname "$0")/.."

work="$(mktemp -d "${TMPDIR:-/tmp}/commons-soak-build.XXXXXX")"
readonly days='RetentionDays) \* command.DayMillis' minutes='RetentionDays) * 60_000'
file="$PWD/$(grep --files-with-matches "$days" fsm/state/*.go)"
sed "s/$days/$minutes/" "$file" >"$work/retention.go"
echo "{\"Replace\": {\"$file\": \"$work/retention.go\"}}" >"$work/overlay.json"
# shellcheck source=scripts/built.sh
source scripts/built.sh soak -overlay "$work/overlay.json"
rm -rf "$work"
"$dir/soak" -binary "$dir/commons" -dir "$dir/run" "$@"
