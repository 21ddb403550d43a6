package fsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// rotate makes a key of these bytes the newest.
func rotate(after uint64, b byte) *command.RotateSigningKey {
	return &command.RotateSigningKey{After: after, Public: bytes.Repeat([]byte{b}, command.SigningKeyBytes), Sealed: []byte{b, b}}
}

func (r *rig) signingKeys() string {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	keys := must.Get(v.SigningKeys())(r.t)
	var s string
	for _, k := range keys {
		s += fmt.Sprintf("%d:%d", k.Number, k.Public[0])
		if k.Public[0] != k.Sealed[1] || len(k.Public) != command.SigningKeyBytes || k.CreatedAt == 0 {
			r.t.Errorf("key %+v", k)
		}
		if k.ReplacedAt != 0 {
			s += " replaced"
		}
		s += "; "
	}
	return s
}

func TestSigningKeys(t *testing.T) {
	r := newRig(t)
	check.Equal(t, r.signingKeys(), "", "keys of a new cluster")
	for i, step := range []struct {
		later int64
		c     *command.RotateSigningKey
		want  string
	}{
		{0, rotate(0, 10), "1:10; "},
		{0, rotate(0, 20), "1:10; "}, // of a leader that does not know of the first
		{0, rotate(1, 20), "2:20; 1:10 replaced; "},
		{outbox.SigningKeyOverlap - 2000, rotate(1, 30), "2:20; 1:10 replaced; "},
		{2000, rotate(1, 30), "2:20; "},
		{0, rotate(2, 30), "3:30; 2:20 replaced; "},
		{0, rotate(3, 40), "4:40; 3:30 replaced; 2:20 replaced; "},
		{0, rotate(4, 50), "5:50; 4:40 replaced; 3:30 replaced; 2:20 replaced; "},
		{0, rotate(5, 60), "6:60; 5:50 replaced; 4:40 replaced; 3:30 replaced; "},
	} {
		r.later(step.later)
		r.run(step.c)
		check.Equal(t, r.signingKeys(), step.want, "step %d", i)
	}
}
