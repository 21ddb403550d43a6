#!/usr/bin/env bash
# Builds what is released, reproducibly: static binaries with the files that
# operators need, a bill of materials for each, Debian packages, and SHA256SUMS.
#
#   scripts/release.sh VERSION [DIRECTORY]      # dist by default
#
# COMMONS_RELEASE_PLATFORMS=linux/amd64 builds that one alone. The same commit,
# Go and VERSION give the same bytes in any directory.
set -euo pipefail

if (($# < 1 || $# > 2)); then
  echo "usage: scripts/release.sh VERSION [DIRECTORY]" >&2
  exit 2
fi
readonly version=$1
if [[ ! "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)?$ ]]; then
  echo "release.sh: $version is no version; write it as v1.2.3 or v1.2.3-rc.1" >&2
  exit 2
fi
dist="$(realpath --canonicalize-missing "${2:-dist}")"
cd "$(dirname "$0")/.."
if [ -n "$(git status --porcelain)" ]; then
  echo "release.sh: the tree has changes that are not committed; commit or remove them" >&2
  exit 1
fi
platforms="${COMMONS_RELEASE_PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}"
committed="$(git log -1 --format=%ct)"
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-release.XXXXXX")"
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"

echo "release.sh: building what makes packages" >&2
# The bill of materials names the program that wrote it by its checksum.
CGO_ENABLED=0 go build -C tools/sbom -trimpath -buildvcs=false -o "$work/cyclonedx-gomod" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
CGO_ENABLED=0 go build -C tools/deploy -trimpath -buildvcs=false -o "$work/deb" ./deb

package() { # <os> <arch>
  local name="commons-$version-$1-$2"
  local tree="$work/$name"
  mkdir -p "$tree"
  CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOFLAGS='' go build -trimpath -buildvcs=true \
    -ldflags "-s -w -buildid= -X github.com/commons-cluster/commons/node/cli.version=$version" -o "$tree/commons" .
  "$work/cyclonedx-gomod" bin -json -std -noserial -notimestamp -output-version 1.5 -version "$version" -output "$dist/$name.cdx.json" "$tree/commons"
  mkdir "$tree/scripts"
  cp -r LICENSE README.md SECURITY.md CHANGELOG.md docs "$tree/"
  cp -r scripts/deploy "$tree/scripts/" # where the manual has it
  chmod -R u=rwX,go=rX "$tree"
  tar --create --directory "$work" --sort=name --mtime="@$committed" --owner=0 --group=0 --numeric-owner --format=ustar "$name" |
    gzip --no-name --best >"$dist/$name.tar.gz"
  names+=("$name.tar.gz" "$name.cdx.json")
  if [ "$1" = linux ]; then
    scripts/deploy/deb/build.sh "$work/deb" "$tree" "$version" "$2" "$committed" "$dist/$name.deb"
    names+=("$name.deb")
  fi
  echo "$name"
}

names=()
for platform in $platforms; do
  package "${platform%/*}" "${platform#*/}"
done
(cd "$dist" && sha256sum "${names[@]}" >SHA256SUMS && cat SHA256SUMS)
