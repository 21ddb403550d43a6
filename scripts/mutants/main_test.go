package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestBugsFit holds that each bug can still be put back: the text that it changes
// stands in the code once.
func TestBugsFit(t *testing.T) {
	if len(bugs) < 10 {
		t.Errorf("only %d bugs", len(bugs))
	}
	for _, b := range bugs {
		files := map[string][]byte{}
		for _, e := range b.edits {
			if files[e.file] == nil {
				data, err := os.ReadFile(filepath.Join("..", "..", e.file))
				if err != nil {
					t.Fatal(err)
				}
				files[e.file] = data
			}
			changed, err := e.apply(files[e.file])
			if err != nil {
				t.Errorf("%s: %v", b.name, err)
				continue
			}
			if bytes.Equal(changed, files[e.file]) {
				t.Errorf("%s: nothing is changed", b.name)
			}
			files[e.file] = changed
		}
	}
}
