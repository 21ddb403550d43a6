package terminal

import (
	"bytes"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestScreenOfATerminal(t *testing.T) {
	var out bytes.Buffer
	s := Screen{Out: &out, Live: true}
	leave := s.Enter()
	s.Show("one\ntwo\n")
	leave()
	for _, want := range []string{screenEnter, screenHome + "one" + lineRest + "\ntwo" + lineRest + "\n", screenRest, screenLeave} {
		check.Contains(t, out.String(), want, "the screen")
	}
}
