#!/usr/bin/env bash
# What the nightly workflow runs. Each part takes hours.
#
#   scripts/nightly.sh fuzz|chaos|race|mutants|coverage
#
# What a failed part leaves is in the directory nightly.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p nightly

case "${1:-}" in
fuzz) # an hour in all
  targets="$(git grep -h '^func Fuzz' -- '*_test.go' | wc -l)"
  COMMONS_CI_FUZZ_TIME="$((3600 / targets))s" bash .ci/run fuzz
  ;;
chaos)
  sudo env PATH="$PATH" CHAOS_OUT=nightly scripts/chaos.sh --long 2h
  ;;
race)
  TEST_LONG=1 go test -race -vet=off -p 2 -parallel 4 -timeout 200m ./...
  ;;
mutants)
  COMMONS_CI_MUTANTS_TIME=0 bash .ci/run mutants
  ;;
coverage)
  scripts/coverage.sh nightly
  ;;
*)
  echo "usage: scripts/nightly.sh fuzz|chaos|race|mutants|coverage" >&2
  exit 2
  ;;
esac
