#!/usr/bin/env bash
# Makes the images of docker-compose.cluster.yml without pulling any, out of a
# binary that Go builds here and of Debian's packages, and prints the variables
# that make Compose use them:
#
#   images="$(scripts/compose-offline.sh)" && eval "$images" &&
#     docker-compose -f docker-compose.cluster.yml up --detach
#
# Grafana is no Debian package: the profile `observability` works without it,
# with `up --detach prometheus`.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="$PATH:/usr/sbin" # where Debian has haproxy
readonly owner=65534 # nobody
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-images.XXXXXX")"
trap 'rm -rf "$work"' EXIT

# Check that every tool is there before anything is built.
for program in go docker haproxy; do
  command -v "$program" >/dev/null || {
    echo "compose-offline.sh: no $program here; on Debian: apt-get install --no-install-recommends ${program/#docker/docker.io}" >&2
    exit 1
  }
done

build_image() { # <tag> <context>: the context holds a Dockerfile
  echo "compose-offline.sh: making the image $1" >&2
  # The classic builder is enough, and there where no plugin is installed.
  DOCKER_BUILDKIT=0 docker build --quiet --tag "$1" "$2" >/dev/null 2>"$work/err" || {
    cat "$work/err" >&2
    return 1
  }
}

commons_image() { # <tag>: the last stage of the Dockerfile around our binary
  local context="$work/${1%:*}"
  mkdir -p "$context/out"
  mkdir -m 700 "$context"/out/{data,secret,backup}
  echo "compose-offline.sh: building the program: the first time, that takes a minute or two" >&2
  CGO_ENABLED=0 go build -trimpath -o "$context/out/commons" .
  sed -n '/^FROM scratch/,$p' Dockerfile | sed 's/--from=build //' >"$context/Dockerfile"
  build_image "$1" "$context"
}

# packaged_image <tag> <package> <program> <arguments as JSON strings> <directory of its own>:
# the program and its libraries
packaged_image() {
  local context="$work/$2" program
  program="$(command -v "$3")"
  mkdir -p "$context/root$5"
  { echo "$program"; ldd "$program" | grep -o '/[^ )]*'; } | sort -u |
    xargs cp --dereference --parents --target-directory "$context/root"
  cat >"$context/Dockerfile" <<DOCKERFILE
FROM scratch
COPY --chown=$owner:$owner root/ /
USER $owner:$owner
ENTRYPOINT ["$program"$4]
DOCKERFILE
  build_image "$1" "$context"
}

commons_image commons-offline:local
packaged_image commons-offline-haproxy:local haproxy haproxy \
  ', "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"' /run
variables='export COMMONS_IMAGE=commons-offline:local HAPROXY_IMAGE=commons-offline-haproxy:local'
if command -v prometheus >/dev/null; then
  packaged_image commons-offline-prometheus:local prometheus prometheus '' /prometheus
  variables+=' PROMETHEUS_IMAGE=commons-offline-prometheus:local'
fi
# Nothing is printed before all images are made: a failure must not look like a success.
echo "$variables"
