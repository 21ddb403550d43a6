package membership

import (
	"testing"

	"github.com/commons-cluster/commons/cluster"
)

func TestCommonFormat(t *testing.T) {
	member := func(id, clusterID string, format int) cluster.Member {
		return cluster.Member{Meta: cluster.Meta{ServerID: id, ClusterID: clusterID, Format: format}}
	}
	for name, tt := range map[string]struct {
		members []cluster.Member
		want    int
	}{
		"all know it":                     {[]cluster.Member{member("a-1", "c", 2), member("b-1", "c", 3)}, 2},
		"one does not":                    {[]cluster.Member{member("a-1", "c", 1), member("b-1", "c", 3)}, 1},
		"one is from before there was it": {[]cluster.Member{member("a-1", "c", 0), member("b-1", "c", 3)}, 1},
		"one is away":                     {[]cluster.Member{member("a-1", "c", 3)}, 0},
		"nobody is seen":                  {nil, 0},
		"one may join":                    {[]cluster.Member{member("a-1", "c", 3), member("b-1", "c", 3), member("d-1", "", 2)}, 2},
		"another cluster is near":         {[]cluster.Member{member("a-1", "c", 3), member("b-1", "c", 3), member("d-1", "d", 2)}, 3},
	} {
		if got := commonFormat(servers("a-1 (b-1)"), tt.members, "c"); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
