package cli

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/node/admin"
)

func TestVerdict(t *testing.T) {
	silent := []admin.Digest{{ID: "n1-a", Digest: "ab", Rows: "cd"}, {ID: "n2-b", Error: "is not there"}}
	for _, tc := range []struct {
		comparison admin.Comparison
		want       []string // in this order
	}{
		{admin.Comparison{Equal: true, Digests: silent[:1]}, nil},
		{admin.Comparison{Equal: true, Digests: silent}, []string{"not every node answered"}},
		{admin.Comparison{Index: 7, Digests: silent}, []string{"differ at index 7", "save a backup of each first", "stop those"}},
	} {
		err := verdict(&tc.comparison)
		if tc.want == nil {
			if err != nil {
				t.Errorf("%+v: %v", tc.comparison, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%+v: no error", tc.comparison)
			continue
		}
		rest := err.Error()
		for _, text := range tc.want {
			_, after, found := strings.Cut(rest, text)
			if !found {
				t.Errorf("%+v: %v, want %q", tc.comparison, err, text)
			}
			rest = after
		}
	}
}
