#!/usr/bin/env bash
# Reports which statements the tests and nodes under chaos run, and the ten files that they run
# least. It takes as long as both: an hour on a small machine.
#
#   scripts/coverage.sh [DIRECTORY]      # coverage by default; profile and summary go there
set -euo pipefail
cd "$(dirname "$0")/.."

out="$(realpath --canonicalize-missing "${1:-coverage}")"
packages="$(go list ./api/... ./cluster/... ./fsm/... ./node/... . | grep -v -e 'test$' -e /simulation -e /integration | paste -sd, -)"
rm -rf "$out/counters"
mkdir -p "$out/counters"/{tests,chaos,all}

go test -vet=off -short -p 2 -timeout 60m -cover -coverpkg "$packages" ./... -args -test.gocoverdir="$out/counters/tests"
# A node that is killed writes no counters; those that end do.
GOFLAGS="${GOFLAGS:-} -cover -coverpkg=$packages" GOCOVERDIR="$out/counters/chaos" \
  scripts/chaos.sh -least 10 -scenario 'faults in turn,what operators do'

go tool covdata merge -i "$out/counters/tests,$out/counters/chaos" -o "$out/counters/all"
go tool covdata textfmt -i "$out/counters/all" -o "$out/profile.txt"
rm -rf "$out/counters"
{
  go tool cover -func "$out/profile.txt" | tail -n 1
  echo "least covered files of 50 statements or more:"
  # file:from,to statements count
  awk -F '[: ]' 'NR > 1 { if ($(NF) > 0) hit[$1] += $(NF - 1); all[$1] += $(NF - 1) }
    END { for (file in all) if (all[file] >= 50) printf "%5.1f%% of %4d  %s\n", 100 * hit[file] / all[file], all[file], file }' \
    "$out/profile.txt" | sort -n | head -n 10
} | tee "$out/summary.txt"
