package datakey

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
)

func TestDataKeyWaitsForEveryServerToHaveTheSecret(t *testing.T) {
	with := func(secrets ...string) *admin.NodeReport { return &admin.NodeReport{Secrets: secrets} }
	has := admin.Server{ID: "a-1", Part: admin.Voter, Report: with("new", "old")}
	for name, test := range map[string]struct {
		others  []admin.Server
		lacking []string
	}{
		"all have it":                {[]admin.Server{{ID: "b-1", Part: admin.NonVoter, Report: with("old", "new")}}, nil},
		"one is late, one is silent": {[]admin.Server{{ID: "b-1", Part: admin.Voter, Report: with("old")}, {ID: "c-1", Part: admin.NonVoter}}, []string{"b-1", "c-1"}},
		"a stranger that is silent":  {[]admin.Server{{ID: "d-1", Part: admin.Outside}}, nil},
		"a stranger without it":      {[]admin.Server{{ID: "d-1", Part: admin.Outside, Report: with("old")}}, []string{"d-1"}},
	} {
		err := checkAllHave(append([]admin.Server{has}, test.others...), "new")
		check.Equal(t, err == nil, test.lacking == nil, "%s: resealed, %v", name, err)
		for _, id := range test.lacking {
			check.Contains(t, err.Error(), id, "%s: the error", name)
		}
	}
}
