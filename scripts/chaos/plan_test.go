package main

import (
	"reflect"
	"testing"
	"time"
)

// TestPlanIsTheSeeds: a seed repeats its plan, and another one is another.
func TestPlanIsTheSeeds(t *testing.T) {
	names := []string{"kill", "pause"}
	one, again, other := randomPlan(1, time.Minute, names), randomPlan(1, time.Minute, names), randomPlan(2, time.Minute, names)
	if !reflect.DeepEqual(one, again) || reflect.DeepEqual(one, other) || len(one) < 5 {
		t.Errorf("%+v\n%+v\n%+v", one, again, other)
	}
	for name, plan := range scenarios {
		for _, e := range plan {
			known := false
			for _, network := range []string{proxied, contained} {
				f := (&options{network: network}).fault(e.Fault)
				known = known || f.begin != nil
				if f.end != nil && e.For == 0 || e.InTurn != plan[0].InTurn {
					t.Errorf("%s with %s: %+v", name, network, e)
				}
			}
			if !known {
				t.Errorf("%s: there is no fault %s", name, e.Fault)
			}
		}
	}
}
