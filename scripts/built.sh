#!/usr/bin/env bash
# Sourced by scripts that test the binary, with the name of a program in scripts and
# flags for building commons: builds both into $dir, which is kept after a failure.
program="$1"
shift
dir="$(mktemp -d "${TMPDIR:-/tmp}/commons-$program.XXXXXX")"
finish() {
  local code=$?
  if ((code == 0)); then
    rm -rf "$dir"
  else
    echo "data and logs are kept in $dir" >&2
  fi
}
trap finish EXIT

echo "building commons and scripts/$program: the first time, that takes a minute or two" >&2
go build "$@" -o "$dir/commons" .
go build -o "$dir/$program" "./scripts/$program"
