package terminal

import (
	"bytes"
	"strings"
	"testing"
)

func TestScreenOfATerminal(t *testing.T) {
	var out bytes.Buffer
	s := Screen{Out: &out, Live: true}
	s.Enter()
	s.Show("one\ntwo\n")
	s.Leave()
	for _, want := range []string{screenEnter, screenHome + "one" + lineRest + "\ntwo" + lineRest + "\n", screenRest, screenLeave} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in %q", want, out.String())
		}
	}
}
