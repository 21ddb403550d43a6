package api

import (
	"testing"
	"time"
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
	if g.enter() {
		t.Error("a shut gate let somebody in")
	}
}
