package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// frozen are the checksums of the files that hold format 1: its numbers and encodings, a log with its
// results and rolling digest, and a data directory with each command and each kind of row. The release that
// freezes format 1 sets them.
var frozen = map[string]string{
	"fsm/testdata/format1.golden":   "0608ebb84e3174b140b7d7a0a481f952179b5accae71fb233a8b76a3709624fb",
	"fsm/testdata/log1.golden":      "095195fdbc767d80c0b2441c658f96fe0ea1eedb6ddf395620c370e22dd20da9",
	"node/testdata/data-v1.json":    "a2bb0aff7816e66c9c37719ce9f712ee1be59aaaf51bc25f6c7f4293fe8974b4",
	"node/testdata/data-v1.tar.zst": "727d92d7c0a92fcb1ecafc0e34d4bc5bc22a773fe3b80224ae5d52e9c086decc",
}

// TestFrozenFiles fails if a file of a released format has changed. It is skipped until
// scripts/releases.tsv has a release.
func TestFrozenFiles(t *testing.T) {
	if len(releasesIn(readText(t, "scripts/releases.tsv"))) == 0 {
		t.Skip("no version is released")
	}
	for _, path := range slices.Sorted(maps.Keys(frozen)) {
		sum := sha256.Sum256(must.Get(os.ReadFile(path))(t))
		check.Equal(t, hex.EncodeToString(sum[:]), frozen[path], `%s, which is frozen; see "A new format" in CONTRIBUTING.md`, path)
	}
}

// TestReleases holds that a line of scripts/releases.tsv ends the skip of TestFrozenFiles.
func TestReleases(t *testing.T) {
	const comments = "# Released versions\n# scripts/upgrade.sh upgrades from each.\n"
	check.Equal(t, len(releasesIn(comments)), 0, "releases in comments alone")
	check.Diff(t, releasesIn(comments+"v0.1.0\t0123abcd\n"), []string{"v0.1.0"}, "releases")
}

// releasesIn returns the versions in the text of scripts/releases.tsv.
func releasesIn(text string) (versions []string) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		version, _, released := strings.Cut(lines.Text(), "\t")
		if released && !strings.HasPrefix(version, "#") {
			versions = append(versions, version)
		}
	}
	return versions
}
