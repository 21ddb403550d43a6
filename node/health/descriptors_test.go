package health

import (
	"math"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestDescriptorsAreDivided(t *testing.T) {
	for _, tt := range []struct {
		limit       uint64
		connections int
		stateFiles  int
	}{
		{256, 128, 43},
		{1024, 512, 171},
		{4096, 2048, 744},
		{10_000, 10_000 - reservedDescriptors, 1000},
		{65_536, api.MaxConnections, 1000},
		{math.MaxUint64, api.MaxConnections, 1000},
	} {
		got := must.Get(divide(tt.limit, api.MaxConnections))(t)
		check.Equal(t, got.Connections, tt.connections, "of %d: %+v: connections", tt.limit, got)
		check.Equal(t, got.StateFiles, tt.stateFiles, "of %d: %+v: state files", tt.limit, got)
		if rest := got.limit - got.Connections - 2*got.StateFiles; rest < got.limit/12 && rest < otherDescriptors {
			t.Errorf("of %d: %d are left for the log and the other nodes while a snapshot is received", tt.limit, rest)
		}
	}
	if _, err := divide(minDescriptors-1, 1); err == nil || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("too few: %v", err)
	}
}
