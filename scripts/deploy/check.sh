#!/usr/bin/env bash
# Checks what operators are handed with the programs that will read it, and that
# a release can be reproduced.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy="$PWD/scripts/deploy"
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-deploy.XXXXXX")"
trap 'rm -rf "$work"' EXIT

check_prometheus() {
  promtool check config "$deploy/prometheus/prometheus.yml"
  promtool test rules "$deploy"/prometheus/rules{,_slow}_test.yml
}

check_haproxy() { # what both files say is the same, apart from addresses and TLS
  haproxy -c -f "$deploy/haproxy/haproxy.cfg"
  diff <(haproxy_rules "$deploy/haproxy/haproxy.cfg") <(haproxy_rules "$deploy/haproxy/haproxy-tls.cfg")
}

haproxy_rules() { # <file>: without comments, addresses, logs and TLS
  sed -e '/^resolvers/,/^$/d' -e '/^#/d' -e 's/ resolvers docker init-addr none resolve-prefer ipv4//' \
    -e '/^    \(bind\|server\|log \(stdout\|\/dev\/log\)\|user\|group\|ssl-default-bind-options\|http-request redirect scheme\)/d' "$1"
}

check_nginx() { # as nginx would include it, with a certificate made here
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=commons.example \
    -keyout "$work/privkey.pem" -out "$work/fullchain.pem" 2>/dev/null
  sed -e "s#/etc/ssl/commons#$work#" -e "s#/var/log/nginx#$work#" "$deploy/nginx/commons.conf" >"$work/commons.conf"
  cat >"$work/nginx.conf" <<NGINX
pid $work/nginx.pid;
error_log stderr;
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
  nginx -t -c "$work/nginx.conf" -e stderr
}

check_systemd() { # <binary>: the unit, what it is allowed, and its settings
  local code=0
  sed "s#/usr/local/bin/commons#$1#" "$deploy/systemd/commons.service" >"$work/commons.service"
  systemd-analyze verify --man=no "$work/commons.service"
  # 0 is confined completely, 100 not at all.
  systemd-analyze security --offline=true --threshold=20 --no-pager "$work/commons.service" | tail -n 1
  "$1" secret generate --keep "$work/secret"
  # This machine does not have the addresses: the node starts up to where it needs
  # them. A wrong setting ends it with code 2.
  (
    set -a
    # shellcheck source=/dev/null
    source "$deploy/systemd/commons.env"
    COMMONS_DATA_DIR="$work/data" COMMONS_SECRET_FILE="$work/secret" "$1" serve 2>"$work/serve.log"
  ) || code=$?
  if ((code != 1)) || ! grep -q 'cannot assign requested address' "$work/serve.log"; then
    echo "commons.env: exit code $code"
    cat "$work/serve.log"
    return 1
  fi
}

check_release() { # two copies in two directories give the same bytes
  local clone commit repository
  commit="$(git rev-parse HEAD)"
  repository="$(git rev-parse --path-format=absolute --git-common-dir)"
  for clone in one "another place"; do
    # A clone proper would refuse the repository of another user.
    mkdir -p "$work/$clone/commons"
    cp -r "$repository" "$work/$clone/commons/.git"
    git -C "$work/$clone/commons" checkout --quiet --force --detach "$commit"
    (cd "$work/$clone/commons" && COMMONS_RELEASE_PLATFORMS=linux/amd64 scripts/release.sh v0.0.0-ci "$work/$clone/dist" >/dev/null)
  done
  diff "$work/one/dist/SHA256SUMS" "$work/another place/dist/SHA256SUMS"
  (cd "$work/one/dist" && sha256sum --check SHA256SUMS)
  tar --extract --gzip --directory "$work" --file "$work/one/dist/commons-v0.0.0-ci-linux-amd64.tar.gz"
  binary="$work/commons-v0.0.0-ci-linux-amd64/commons"
  "$binary" version
  # The files that the manual installs are in the archive, at the manual's paths.
  local file
  for file in SECURITY.md $(grep --only-matching --no-filename 'scripts/deploy/[a-z./-]*[a-z]' docs/operating/*.md | sort --unique); do
    if [ ! -e "$(dirname "$binary")/$file" ]; then
      echo "the release has no $file"
      return 1
    fi
  done
  if ldd "$binary" >/dev/null 2>&1; then
    echo "the binary is not static"
    return 1
  fi
}

check_kubernetes() { # <binary>: the manifests, and the manual's page on them
  go test -C tools/deploy -vet=off -count=1 ./kubernetes -args -binary "$1"
}

binary=""
check_release
check_kubernetes "$binary" &>"$work/kubernetes.log" & # it mostly waits
kubernetes=$!
check_systemd "$binary"
"$deploy/installed.sh" "$(dirname "$binary")"
go build -C tools/deploy -o "$work/deb" ./deb
"$deploy/deb/build.sh" "$work/deb" "$(dirname "$binary")" v0.0.1 amd64 0 "$work/later.deb" # the same program
"$deploy/installed.sh" "$(dirname "$binary")" "$work/one/dist/commons-v0.0.0-ci-linux-amd64.deb" "$work/later.deb"
check_prometheus
check_haproxy
check_nginx
"$deploy/balancers.sh" "$binary"
"$deploy/tasks.sh" "$binary"
code=0
wait "$kubernetes" || code=$?
cat "$work/kubernetes.log"
exit "$code"
