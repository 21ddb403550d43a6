package harness

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestOneVoterEach(t *testing.T) {
	for _, test := range []struct {
		voters string
		good   bool
	}{
		{"node1-aa node2-bb node3-cc", true},
		{"node3-cc node1-aa node2-bb", true},
		{"node1-aa node2-bb", false},
		{"node1-aa node1-dd node2-bb", false},
		{"node1-aa node2-bb node4-cc", false},
		{"node1-aa node2-bb node3-cc node4-dd", false},
	} {
		if err := oneVoterEach(strings.Fields(test.voters), []string{"node1", "node2", "node3"}); (err == nil) != test.good {
			t.Errorf("%s: %v", test.voters, err)
		}
	}
}

func TestPlay(t *testing.T) {
	var ran []string
	step := func(name string, err error) Scenario[*[]string] {
		return Scenario[*[]string]{name, func(ran *[]string) {
			*ran = append(*ran, name)
			Must(err)
		}}
	}
	broken := errors.New("broken")
	scenarios := []Scenario[*[]string]{step("a", nil), step("b", broken), step("c", nil)}
	r := NewRun(t.Context(), "", "")
	play := func() error { return Try(func() { Play(r, &ran, scenarios...) }) }
	if err := play(); !errors.Is(err, broken) || !slices.Equal(ran, []string{"a", "b"}) {
		t.Errorf("%v, %v", ran, err)
	}
	r.Only = "c"
	if err := play(); err != nil || !slices.Equal(ran, []string{"a", "b", "c"}) {
		t.Errorf("%v, %v", ran, err)
	}
}

func TestMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc here")
	}
	if sizes, err := Memory(os.Getpid()); err != nil || sizes.VmRSS < 1<<20 {
		t.Errorf("%+v, %v", sizes, err)
	}
}
