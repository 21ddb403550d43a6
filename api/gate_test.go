package api

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
)

func TestGateWaitsForThoseInside(t *testing.T) {
	var g gate
	if !g.enter() {
		t.Fatal("an open gate let nobody in")
	}
	left := false
	time.AfterFunc(10*time.Millisecond, func() {
		left = true
		g.leave()
	})
	g.close()
	if !left {
		t.Error("the gate closed over somebody inside")
	}
	check.Equal(t, g.enter(), false, "a shut gate let somebody in")
}
