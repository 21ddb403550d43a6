#!/usr/bin/env bash
# Sourced by scripts that need a made-up later version, which knows one more format: sets the
# array later to the flags of go build, and writes to the directory that is named. The version is
# not in the tree: only the compiler sees the changed file and the new one.
commands="$PWD/fsm/command"
sed 's/^\tMaxFormat = .*/\tMaxFormat = laterFormat/' "$commands/cluster.go" >"$1/cluster.go"
grep -q 'MaxFormat = laterFormat' "$1/cluster.go"
cat >"$1/overlay.json" <<JSON
{"Replace": {"$commands/cluster.go": "$1/cluster.go", "$commands/later.go": "$PWD/scripts/chaos/later.go.txt"}}
JSON
# shellcheck disable=SC2034 # the sourcing script uses it
later=(-overlay "$1/overlay.json")
