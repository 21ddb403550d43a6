#!/usr/bin/env bash
# Puts known bugs back, one by one, and fails when the tests do not notice one of
# them. The tree stays as it is: only the compiler sees a bug.
#
#   scripts/mutants.sh [-cluster | -simulation] [-for 3m] [-seed TEXT] [words of a bug's name ...]
#
# -cluster takes the bugs that scripts/chaos has to find in a cluster of real nodes, a
# minute each, and -simulation those that node/simulation has to find. -for begins no
# further bug after this time; -seed puts them into another order, so that short runs at
# different commits try different ones.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./scripts/mutants "$@"
