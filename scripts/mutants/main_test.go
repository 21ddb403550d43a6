package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestBugsFit holds that each bug can still be put back: the text that it changes
// stands in the code once.
func TestBugsFit(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	if len(bugs) < 10 {
		t.Errorf("only %d bugs", len(bugs))
	}
	dir := t.TempDir()
	all := slices.Concat(bugs, clusterBugs)
	for i := range all {
		b := &all[i]
		file, err := b.overlay(dir)
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var overlay struct{ Replace map[string]string }
		if err := json.Unmarshal(data, &overlay); err != nil || len(overlay.Replace) == 0 {
			t.Fatalf("%s: %s, %v", b.name, data, err)
		}
		for path, changed := range overlay.Replace {
			if bytes.Equal(read(t, path), read(t, changed)) {
				t.Errorf("%s: nothing is changed in %s", b.name, path)
			}
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestEveryBugHasItsTurn holds that runs with other seeds begin with other bugs, and
// that a run can be repeated.
func TestEveryBugHasItsTurn(t *testing.T) {
	names := func(chosen []bug) (names []string) {
		for _, b := range chosen {
			names = append(names, b.name)
		}
		return names
	}
	all := names(choose(bugs, nil, ""))
	if len(all) != len(bugs) {
		t.Fatalf("%d of %d bugs are chosen", len(all), len(bugs))
	}
	slices.Sort(all)
	if same := slices.Compact(slices.Clone(all)); len(same) != len(all) {
		t.Error("two bugs have one name")
	}
	first := map[string]bool{}
	for seed := range 20 * len(bugs) {
		order := names(choose(bugs, nil, strconv.Itoa(seed+1)))
		first[order[0]] = true
		slices.Sort(order)
		if !slices.Equal(order, all) {
			t.Fatalf("a seed chooses %q, want %q", order, all)
		}
	}
	if len(first) != len(bugs) {
		t.Errorf("%d of %d bugs ever come first", len(first), len(bugs))
	}
	if a, b := names(choose(bugs, nil, "a commit")), names(choose(bugs, nil, "a commit")); !slices.Equal(a, b) {
		t.Errorf("one seed gives %q and %q", a, b)
	}
	if got := names(choose(bugs, []string{"claimed job", "no such"}, "")); !slices.Equal(got, []string{"a claimed job is claimed again"}) {
		t.Errorf("chosen by a word: %q", got)
	}
}

// TestNoticedBy holds that only a test that failed counts as one that noticed.
func TestNoticedBy(t *testing.T) {
	if by, err := noticedBy([]byte("=== some\n--- FAIL: TestOne (0.01s)\n    --- FAIL: TestOne/part (0.00s)\nFAIL\n")); err != nil || by != "TestOne" {
		t.Errorf("%q, %v", by, err)
	}
	if by, err := noticedBy([]byte("signal: killed\nFAIL\n")); err == nil {
		t.Errorf("a run without a failed test was noticed by %q", by)
	}
}
