package apply

import (
	"fmt"
	"testing"
)

func TestMemoKeepsWhatWasUsedLast(t *testing.T) {
	m := newCache[int](4)
	for i := range 10 {
		m.put(fmt.Sprint(i), &i)
		if m.get("0") == nil {
			t.Fatalf("after %d: what is always used was forgotten", i)
		}
	}
	if m.get("1") != nil {
		t.Error("nothing was forgotten")
	}
	if n := len(m.young) + len(m.old); n > 4 {
		t.Errorf("%d values are kept", n)
	}
}
