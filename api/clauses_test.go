package api_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

// TestPathsHaveNoVersion holds that the paths under /api have no version (interface 9).
func TestPathsHaveNoVersion(t *testing.T) {
	version := regexp.MustCompile(`/v\d`)
	for path := range apitest.Document(t).Paths.Map() {
		if strings.HasPrefix(path, "/api/") && version.MatchString(path) {
			t.Errorf("%s has a version", path)
		}
	}
}
