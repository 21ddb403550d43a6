#!/usr/bin/env bash
# Counts the functions of this module that a message executes at the follower that takes it
# and at the leader, and those of a home call, by the coverage counters of the processes. The
# fewer they are, the less has to be known to change what they do. With FILE it lists them.
#
#   tools/functions.sh [COMMIT [FILE]]      # HEAD by default
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ports=(18080 18081 18082) rounds=5 idle=3 # rounds of each call; seconds without one
list="$(realpath --canonicalize-missing "${2:-/dev/null}")"
dir="$(mktemp -d "${TMPDIR:-/tmp}/commons-functions.XXXXXX")"
git worktree add --detach --quiet "$dir/source" "${1:-HEAD}"
dev=""
finish() {
  if [[ -n "$dev" ]]; then
    kill "$dev" || true
    wait "$dev" || true
  fi
  git worktree remove --force "$dir/source"
  rm -rf "$dir"
}
trap finish EXIT

# The binary gets one more file: SIGUSR1 clears the counters, SIGUSR2 writes them.
cat >"$dir/source/counters.go" <<'GO'
package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"runtime/coverage"
	"syscall"
)

func init() {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range got {
			dir := filepath.Join(os.Getenv("COUNTERS"), nodeID())
			if s == syscall.SIGUSR1 {
				_ = coverage.ClearCounters()
				_ = os.RemoveAll(dir)
				continue
			}
			_ = os.MkdirAll(dir+".new", 0o755)
			_ = coverage.WriteMetaDir(dir + ".new")
			_ = coverage.WriteCountersDir(dir + ".new")
			_ = os.Rename(dir+".new", dir)
		}
	}()
}

func nodeID() string {
	for i, arg := range os.Args {
		if arg == "--node-id" {
			return os.Args[i+1]
		}
	}
	return "dev"
}
GO
go build -C "$dir/source" -cover -covermode=atomic -coverpkg=./... -o "$dir/commons" .

mkdir "$dir/counters"
COUNTERS="$dir/counters" GOCOVERDIR="$dir/counters" "$dir/commons" dev --data-dir "$dir/data" \
  --http-port "${ports[0]}" --cluster-port 17000 --gossip-port 17946 >"$dir/dev.log" 2>&1 &
dev=$!
deadline=$((SECONDS + 60))
until leader="$(grep -o 'the leader is n[1-3]' "$dir/dev.log" | tail -n 1)" && [[ -n "$leader" ]]; do
  ((SECONDS < deadline)) || { cat "$dir/dev.log"; exit 1; }
  sleep 0.2
done
leader="${leader##* }"
follower=n1
[[ "$leader" != n1 ]] || follower=n2
url="http://127.0.0.1:${ports[${follower#n} - 1]}"
pid() { grep -o "$1 runs as process [0-9]*" "$dir/dev.log" | grep -o '[0-9]*$'; }

# window NAME COMMAND...: the functions that both nodes execute during a command.
window() {
  local name="$1" node
  kill -USR1 "$(pid "$leader")" "$(pid "$follower")"
  sleep 0.3
  "${@:2}" >/dev/null
  sleep 0.5 # followers apply, the index takes the entry
  for node in "$leader" "$follower"; do
    kill -USR2 "$(pid "$node")"
    until [[ -d "$dir/counters/$node" ]]; do sleep 0.1; done
    go tool covdata func -i "$dir/counters/$node" | awk '/%$/ && $NF != "0.0%" && $1 != "total" {print $1, $2}' | sort -u >"$dir/$name.$node"
  done
}
# steady NAME NODE: those of every round, without those of an idle node.
steady() {
  sort "$dir/$1".[0-9]*."$2" | uniq -c | awk -v n="$rounds" '$1 == n {print $2, $3}' | sort | comm -23 - "$dir/idle.$2"
}

post() { curl -sS --fail "$url/api/entries" -d agent=one -d channel=general --data-urlencode "body=A plain message with some words, number $1." -d "request_id=message-$1"; }
home() { curl -sS --fail "$url/api/home?agent=one"; }
post 0 >/dev/null
home >/dev/null
for i in 1 2; do
  window "idle.$i" sleep "$idle"
done
for node in "$leader" "$follower"; do sort -u "$dir"/idle.[0-9]."$node" >"$dir/idle.$node"; done
for ((i = 1; i <= rounds; i++)); do
  window "message.$i" post "$i"
  window "home.$i" home
done
{
  steady message "$follower" | sed 's/^/message-follower /'
  steady message "$leader" | sed 's/^/message-leader /'
  steady home "$follower" | sed 's/^/home /'
} >"$dir/all"
cp "$dir/all" "$list" 2>/dev/null || true
cut -d ' ' -f 1 "$dir/all" | sort | uniq -c
