#!/usr/bin/env bash
# Puts the shipped balancers before three nodes and tries what they promise: nobody
# reads measurements through them, calls that wait may, and while a node hangs no GET fails.
#
#   scripts/deploy/balancers.sh <commons binary>
set -euo pipefail
cd "$(dirname "$0")"

binary="$1"
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-balancers.XXXXXX")"
started=() # processes to be ended
cleanup() {
  kill -CONT "${nodes[@]}" 2>/dev/null || true
  kill "${started[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap cleanup EXIT
nodes=()

readonly base=$((3000 + RANDOM % 3000)) # of the ports, below those of tests: three nodes, then what follows
readonly haproxy=$((base + 30)) measurements=$((base + 31)) nginx=$((base + 32)) caddy=$((base + 33)) haproxy_tls=$((base + 34)) plain=$((base + 35))
readonly host=commons.example # in the shipped files
readonly patience=60 # seconds for everything to come up

fail() {
  tail -n 5 "$work"/*.log >&2 || true
  echo "balancers: $*" >&2
  exit 1
}

until_works() { # <command> ...
  local end=$((SECONDS + patience))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "not within $patience s: $*"
    sleep 0.2
  done
}

ask() { # <port of a balancer> <curl's arguments> ...
  local scheme=https
  if (($1 == haproxy)); then scheme=http; fi
  curl --silent --show-error --cacert "$work/ca.pem" --resolve "$host:$1:127.0.0.1" --max-time 25 "${@:2:$#-2}" "$scheme://$host:$1${*: -1}"
}

make_certificate() { # of an authority that curl trusts here, for the name in the shipped files
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=An authority' -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$host" -keyout "$work/privkey.pem" -out "$work/request.pem" 2>/dev/null
  openssl x509 -req -in "$work/request.pem" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 1 \
    -extfile <(echo "subjectAltName=DNS:$host") -out "$work/certificate.pem" 2>/dev/null
  cat "$work/certificate.pem" "$work/ca.pem" >"$work/fullchain.pem"
  cat "$work/fullchain.pem" "$work/privkey.pem" >"$work/haproxy.pem"
}

with_nodes() { # with the addresses of our nodes in place of those in the shipped files
  sed -e "s/192.0.2.11:8080/127.0.0.1:$base/g; s/192.0.2.12:8080/127.0.0.1:$((base + 1))/g; s/192.0.2.13:8080/127.0.0.1:$((base + 2))/g" -e "s#/etc/ssl/commons#$work#g" "$@"
}

start_nodes() {
  "$binary" dev --data-dir "$work/data" --http-port "$base" --cluster-port $((base + 10)) --gossip-port $((base + 20)) \
    -- --write-rate 0 --write-burst 0 >"$work/dev.log" 2>&1 &
  started+=($!)
  local i
  for i in 0 1 2; do until_works curl --fail --silent "http://127.0.0.1:$((base + i))/readyz"; done
  mapfile -t nodes < <(pgrep --parent "${started[0]}")
  ((${#nodes[@]} == 3)) || fail "commons dev runs ${#nodes[@]} processes"
}

make_token() { # of a moderator
  "$binary" mod token create waiter --cluster-addr "127.0.0.1:$((base + 10))" --secret-file "$work/data/secret" --json |
    sed -n 's/.*"token": "\(.*\)",/\1/p'
}

start_haproxy() { # the shipped file, with our addresses
  sed -e '/^resolvers/,/^$/d' -e 's/ resolvers docker init-addr none resolve-prefer ipv4//' -e '/ node[45]:/d' \
    -e "s/ node1:8080/ 127.0.0.1:$base/; s/ node2:8080/ 127.0.0.1:$((base + 1))/; s/ node3:8080/ 127.0.0.1:$((base + 2))/" \
    -e "s/bind :8080/bind 127.0.0.1:$haproxy/; s/bind :8404/bind 127.0.0.1:$measurements/" \
    haproxy/haproxy.cfg >"$work/haproxy.cfg"
  haproxy -db -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
  started+=($!)
  until_works ask "$haproxy" --fail /readyz
}

start_haproxy_tls() {
  with_nodes -e '/^    user /d; /^    group /d' -e "s#/dev/log local0#stdout format raw local0#" \
    -e "s/bind :80\$/bind 127.0.0.1:$plain/; s/bind :443/bind 127.0.0.1:$haproxy_tls/; s/bind :8404/bind 127.0.0.1:$((base + 36))/" \
    haproxy/haproxy-tls.cfg >"$work/haproxy-tls.cfg"
  haproxy -db -f "$work/haproxy-tls.cfg" >"$work/haproxy-tls.log" 2>&1 &
  started+=($!)
  until_works ask "$haproxy_tls" --fail /readyz
}

start_caddy() { # with a certificate of its own, as the shipped file says
  with_nodes -e "0,/^{\$/s//{\n\tadmin off\n\tskip_install_trust\n\thttp_port $((base + 37))\n\thttps_port $caddy\n\tdefault_bind 127.0.0.1/" \
    -e 's/^\t#tls /\ttls /' caddy/Caddyfile >"$work/Caddyfile"
  XDG_DATA_HOME="$work" XDG_CONFIG_HOME="$work" caddy run --adapter caddyfile --config "$work/Caddyfile" >"$work/caddy.log" 2>&1 &
  started+=($!)
  until_works ask "$caddy" --fail /readyz
}

start_nginx() {
  with_nodes -e "s#/var/log/nginx#$work#" -e '/listen \[::\]/d' -e "s/listen 443/listen 127.0.0.1:$nginx/" nginx/commons.conf >"$work/commons.conf"
  cat >"$work/nginx.conf" <<NGINX
pid $work/nginx.pid;
daemon off;
error_log $work/nginx.log;
events {}
http {
  client_body_temp_path $work/body;
  proxy_temp_path $work/proxy;
  fastcgi_temp_path $work/fastcgi;
  uwsgi_temp_path $work/uwsgi;
  scgi_temp_path $work/scgi;
  include $work/commons.conf;
}
NGINX
  nginx -c "$work/nginx.conf" -e "$work/nginx.log" &
  started+=($!)
  until_works ask "$nginx" --fail /readyz
}

# measurements_stay checks that every spelling under which a node shows its measurements,
# and some more, is rejected.
measurements_stay() { # <port of a balancer>
  local path served=0
  for path in /metrics /metrics/ /metrics// /metrics//// '/metrics?x' '/metrics//?x=/y' '/metrics#x' //metrics /./metrics /x/../metrics \
    /%6detrics /metrics%2f /Metrics; do
    if [[ "$(curl --silent --max-time 5 --request-target "$path" "http://127.0.0.1:$base")" == *go_goroutines* ]]; then
      served=$((served + 1))
    fi
    if [[ "$(ask "$1" --request-target "$path" /)" == *go_goroutines* ]]; then fail "port $1 shows measurements at $path"; fi
  done
  ((served >= 4)) || fail "a node shows its measurements under $served spellings: nothing was tried"
}

# waits_last checks that waiting calls are answered, and a stream of events stays open,
# after more time than other calls may take.
waits_last() { # <port of a balancer>
  local code=0 poll claim reports
  ask "$1" --fail --output /dev/null "/api/events?wait=14" &
  poll=$!
  ask "$1" --fail --output /dev/null --json '{"agent":"waiter","action":"claim","next":{},"wait":14}' /api/jobs &
  claim=$!
  ask "$1" --fail --output /dev/null --header "Authorization: Bearer $token" "/api/moderation/reports?wait=14" &
  reports=$!
  ask "$1" --no-buffer --output "$work/stream" --header 'Accept: text/event-stream' /api/events || code=$?
  wait "$poll" || fail "a poll of events by port $1 failed"
  wait "$claim" || fail "a claim by port $1 that waits for a job failed"
  wait "$reports" || fail "a moderator's wait for reports by port $1 failed"
  ((code == 28)) || fail "port $1 ended a stream of events: $code" # 28: curl's own time was over
  (($(grep --count '^event: ping' "$work/stream") == 2)) || fail "a stream by port $1: $(cat "$work/stream")"
}

# late prints the body of a request some time after its headers went out.
late() { # <body>
  sleep 0.3
  printf '%s' "$1"
}

# while_one_hangs stops a node without notice. Another node must answer every GET, and, behind
# HAProxy, every POST with an Idempotency-Key. No call must have written twice when the node
# continues.
while_one_hangs() { # <port of a balancer>
  local i pids=() hung="${nodes[0]}" posts=0
  if (($1 == haproxy || $1 == haproxy_tls)); then posts=6; fi
  kill -STOP "$hung"
  for i in {1..6}; do
    ask "$1" --fail --output /dev/null "/api/entries?action=publish&confirm=write&channel=port-$1&request_id=request-$1-$i&body=write-$i" &
    pids+=($!)
    ask "$1" --fail --output /dev/null "/api/entries?limit=1" &
    pids+=($!)
    ((i <= posts)) || continue
    late "{\"channel\":\"port-$1\",\"body\":\"write-post-$i\"}" |
      ask "$1" --fail --output /dev/null --header "Idempotency-Key: post-$1-$i" --header 'Content-Type: application/json' --request POST --upload-file - /api/entries &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || fail "a call by port $1 failed while a node hung"; done
  kill -CONT "$hung"
  until_works curl --fail --silent "http://127.0.0.1:$base/readyz"
  until_works ask "$1" --fail /readyz
  local written
  written="$(ask "$1" --fail "/api/entries?consistency=strong&channel=port-$1" | grep --only-matching '"body":"write-[-a-z0-9]*"' | sort)" ||
    fail "nothing was written by port $1"
  [ "$written" = "$( (printf '"body":"write-%d"\n' {1..6}; ((posts == 0)) || printf '"body":"write-post-%d"\n' {1..6}) | sort)" ] || fail "not everything was written once by port $1: $written"
}

# reads_go_on stops two of the three nodes. The third is not ready without a leader, and
# must answer reads nevertheless.
reads_go_on() { # <port of a balancer> ...
  local port hung
  mapfile -t hung < <(pgrep --parent "${started[0]}" --full -- '--node-id n[12] ')
  ((${#hung[@]} == 2)) || fail "two nodes are to be stopped, not ${#hung[@]}"
  kill -STOP "${hung[@]}"
  until_works unready $((base + 2))
  for port in "$@"; do until_works ask "$port" --fail "/api/entries?limit=1"; done
  kill -CONT "${hung[@]}"
}

unready() { # <port of a node>
  [[ "$(curl --silent --max-time 5 --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:$1/readyz")" == 503 ]]
}

make_certificate
start_nodes
token="$(make_token)"
start_haproxy
start_haproxy_tls
start_caddy
start_nginx
for balancer in "$haproxy" "$haproxy_tls" "$caddy" "$nginx"; do
  measurements_stay "$balancer"
  waits_last "$balancer"
  while_one_hangs "$balancer"
done
reads_go_on "$haproxy" "$haproxy_tls" "$caddy" # nginx does not ask whether nodes are ready
[[ "$(curl --silent --output /dev/null --write-out '%{http_code} %{redirect_url}' --header "Host: $host" "http://127.0.0.1:$plain/api/stats")" == "308 https://$host/api/stats" ]] ||
  fail "HAProxy does not lead to TLS"
[[ "$(curl --fail --silent "http://127.0.0.1:$measurements/metrics")" == *'haproxy_server_http_responses_total{proxy="ready"'* ]] ||
  fail "HAProxy does not measure itself"
echo "balancers: measurements stay inside, and no GET and no keyed POST behind HAProxy fails while a node hangs"
