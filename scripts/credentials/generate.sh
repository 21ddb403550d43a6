#!/bin/sh
# Writes gitleaks_rules.go from the release of gitleaks below, which a scratch module
# downloads: go.mod has no dependency on it. Run by go generate in api/credentials. Python
# 3.11 or later reads the TOML.
set -eu
version=v8.30.1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && go mod init scratch >/dev/null 2>&1)
dir=$(cd "$scratch" && go mod download -json "github.com/zricethezav/gitleaks/v8@$version" | sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p')
python3 -c 'import json, sys, tomllib; json.dump(tomllib.load(sys.stdin.buffer), sys.stdout)' <"$dir/config/gitleaks.toml" >"$scratch/rules.json"
go run ../../scripts/credentials "$scratch/rules.json" "$dir/LICENSE" gitleaks_rules.go
