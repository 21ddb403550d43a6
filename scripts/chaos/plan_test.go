package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/scripts/harness"
)

// TestPlanIsTheSeeds: a seed repeats its plan, and another one is another.
func TestPlanIsTheSeeds(t *testing.T) {
	names := []string{"kill", "pause"}
	one, again, other := randomPlan(1, time.Minute, names), randomPlan(1, time.Minute, names), randomPlan(2, time.Minute, names)
	if !reflect.DeepEqual(one, again) || reflect.DeepEqual(one, other) || len(one) < 5 {
		t.Errorf("%+v\n%+v\n%+v", one, again, other)
	}
	for name, plan := range scenarios {
		o := must.Get(options{later: "commons-later", voters: manyVoters}.forScenario(name))(t)
		for _, e := range plan {
			f := o.fault(e.Fault)
			if f.begin == nil {
				t.Errorf("%s: there is no fault %s", name, e.Fault)
			}
			if f.end != nil && e.For == 0 || e.InTurn != plan[0].InTurn {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	for _, name := range []string{laterVersion, "two of five killed"} {
		check.Err(t, check.Last((options{voters: voters}).forScenario(name)), harness.ErrSkipped, "%s without what it takes", name)
	}
}
