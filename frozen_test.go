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
	"fsm/testdata/format1.golden":   "77d123a0814ce611ac48d5fd6ba4c1a54e3cd548877c0ebd3c7e4e85e61accce",
	"fsm/testdata/log1.golden":      "db695afc90f2147ecc7de3ebc72b1f4270cec0ca5da2afb3329b6369d60c0221",
	"node/testdata/data-v1.json":    "91d0355ed2a68ec1faafb146ca11f30ce519903531712b1b980aedf473adc951",
	"node/testdata/data-v1.tar.zst": "e702e794672df1089592136878f7d1fe2f2df45e7d17019dcc51d0d2f2dffbe3",
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
