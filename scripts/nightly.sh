#!/usr/bin/env bash
# Runs a part of the nightly workflow. Most take hours.
#
#   scripts/nightly.sh fuzz|simulation|chaos|compose|race|mutants|bugs|loaded|coverage
#
# What it prints is kept in the directory nightly, with its reports.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p nightly
exec > >(tee "nightly/${1:-none}.log") 2>&1

case "${1:-}" in
fuzz) # an hour in all
  targets="$(git grep -h '^func Fuzz' -- '*_test.go' | wc -l)"
  COMMONS_CI_FUZZ_GUIDED=1 COMMONS_CI_FUZZ_TIME="$((3600 / targets))s" bash .ci/run fuzz
  ;;
simulation) # an hour of processor time, from a seed of the commit on
  COMMONS_CI_SIMULATION_TIME=1h bash .ci/run simulation
  ;;
chaos)
  code=0
  sudo env PATH="$PATH" TMPDIR="$PWD/nightly" scripts/chaos.sh --long 120 || code=$?
  sudo chown -R "$(id -u)" nightly # to be uploaded
  exit "$code"
  ;;
compose) # with pauses of a minute, and five nodes
  sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends haproxy prometheus
  TMPDIR="$PWD/nightly" scripts/compose.sh -long
  ;;
race)
  TEST_LONG=1 go test -race -vet=off -p 2 -parallel 4 -timeout 200m ./...
  ;;
mutants)
  COMMONS_CI_MUTANTS_TIME=0 bash .ci/run mutants
  ;;
bugs) # those that a cluster of real nodes, and the simulation, have to find
  code=0
  sudo env PATH="$PATH" scripts/mutants.sh -cluster || code=$?
  scripts/mutants.sh -simulation || code=$?
  exit "$code"
  ;;
loaded) # tests of clusters in which leaders die, beside busy processors and a busy disk
  scripts/loaded.sh
  ;;
coverage)
  scripts/coverage.sh nightly
  ;;
*)
  echo "usage: scripts/nightly.sh fuzz|simulation|chaos|compose|race|mutants|bugs|loaded|coverage" >&2
  exit 2
  ;;
esac
