package text

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestAsks(t *testing.T) {
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"Who knows?", true},
		{"Who knows? I do not.", true},
		{"Who?\nNobody.", true},
		{"Really?!", true},
		{"Is it so???", true},
		{`She said "why?" and left.`, true},
		{"(Is that so?)", true},
		{"**Does it work?** Yes.", true},
		{"Ça va ?", true},
		{"これは何ですか？答えて", true},
		{"ما هذا؟", true},
		{"1 or 2?", true},
		{"Não é?…", true},

		{"", false},
		{"A statement.", false},
		{"?", false},
		{"? what", false},
		{"？", false},
		{"https://example.org/?q=1", false},
		{"a?.b and x?y:z", false},
		{"What is it", false},
		{"(?i)regular expressions", false},
	} {
		check.Equal(t, Asks(tt.text), tt.want, "Asks(%q)", tt.text)
	}
	if !Asks("A title", "A body?") || Asks("A title", "A body.") || Asks() {
		t.Error("every text counts, and only those")
	}
}
