package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func knownBugs(t *testing.T) (tested, played []bug) {
	t.Helper()
	tested, played, err := readBugs(known)
	must.Do(t, err)
	return tested, played
}

// TestBugsFit holds that each bug can still be put back: the text that it changes
// stands in the code once.
func TestBugsFit(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	tested, played := knownBugs(t)
	if len(tested) < 150 || len(played) < 9 {
		t.Errorf("only %d and %d bugs", len(tested), len(played))
	}
	dir := t.TempDir()
	all := slices.Concat(tested, played)
	for i := range all {
		b := &all[i]
		file, err := b.overlay(dir)
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		data := must.Get(os.ReadFile(file))(t)
		var overlay struct{ Replace map[string]string }
		if err := json.Unmarshal(data, &overlay); err != nil || len(overlay.Replace) == 0 {
			t.Fatalf("%s: %s, %v", b.name, data, err)
		}
		for path, changed := range overlay.Replace {
			check.Equal(t, bytes.Equal(read(t, path), read(t, changed)), false, "%s: nothing is changed in %s", b.name, path)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return data
}

// TestBugsAreRead holds that a table with a mistake is rejected.
func TestBugsAreRead(t *testing.T) {
	const whole = "bug: a name\nbecause: it hurts\ntests: ./fsm One|Two\nin: fsm store.Get\n- one\n- \ttwo\n+ three\n"
	for _, test := range []struct{ name, table, wrong string }{
		{"whole", "# a comment\n\n" + whole, ""},
		{"in a cluster", strings.Replace(whole, "tests: ./fsm One|Two", "scenario: leader killed", 1), ""},
		{"without tests", strings.Replace(whole, "tests: ./fsm One|Two\n", "", 1), "a line is missing"},
		{"with tests and a scenario", whole + "scenario: leader killed\n", "one too many"},
		{"without an edit", "bug: a name\nbecause: it hurts\ntests: ./fsm One\n", "a line is missing"},
		{"without a name", strings.Replace(whole, "bug: a name\n", "", 1), "a line is missing"},
		{"lines before their place", "bug: a name\n- one\n", "is no line of a bug"},
		{"an unknown line", whole + "why: it hurts\n", "is no line of a bug"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tested, played, err := readBugs(test.table)
			if test.wrong != "" {
				check.ErrText(t, err, test.wrong, "error")
				return
			}
			all := slices.Concat(tested, played)
			if err != nil || len(all) != 1 {
				t.Fatalf("%d bugs, error %v", len(all), err)
			}
			want := []edit{{place: "fsm", name: "store.Get", was: []string{"one", "\ttwo"}, is: []string{"three"}}}
			if b := all[0]; b.name != "a name" || b.because != "it hurts" || !reflect.DeepEqual(b.edits, want) {
				t.Errorf("read as %+v", b)
			}
		})
	}
}

// TestEdits holds that an edit changes the declaration that it names, and no other one.
func TestEdits(t *testing.T) {
	const source = "package p\n\nvar limit = 3\n\nfunc add() {\n\tone()\n\t\ttwo()\n}\n\nfunc (s *set[T]) add() {\n\tone()\n\ttwo()\n\tone()\n}\n"
	dir := t.TempDir()
	file := filepath.Join(dir, "p.go")
	must.Do(t, os.WriteFile(file, []byte(source), 0o600))
	for _, test := range []struct {
		name string
		edit edit
		want string // empty if the edit is rejected
	}{
		{"function", edit{place: dir, name: "add", was: []string{"one()"}, is: []string{"two()"}}, strings.Replace(source, "one()", "two()", 1)},
		{"other indentation", edit{place: dir, name: "add", was: []string{"one()", "two()"}}, strings.Replace(source, "one()\n\t\ttwo()", "", 1)},
		{"method", edit{place: dir, name: "set.add", was: []string{"two()"}}, strings.Replace(source, "\ttwo()\n\tone", "\t\n\tone", 1)},
		{"variable", edit{place: dir, name: "limit", was: []string{"3"}, is: []string{"4"}}, strings.Replace(source, "3", "4", 1)},
		{"file", edit{place: file, was: []string{"package p"}, is: []string{"package q"}}, strings.Replace(source, "package p", "package q", 1)},
		{"text that stands twice", edit{place: dir, name: "set.add", was: []string{"one()"}}, ""},
		{"text of another declaration", edit{place: dir, name: "limit", was: []string{"one()"}}, ""},
		{"no such declaration", edit{place: dir, name: "sub", was: []string{"one()"}}, ""},
		{"no such package", edit{place: dir + "/none", name: "add", was: []string{"one()"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := map[string][]byte{}
			err := test.edit.apply(changed)
			must.Equal(t, err == nil, test.want != "", "error %v", err)
			if got := string(changed[file]); err == nil && got != test.want {
				t.Errorf("got\n%s", got)
			}
		})
	}
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
	bugs, _ := knownBugs(t)
	all := names(choose(bugs, nil, ""))
	must.Equal(t, len(all), len(bugs), "bugs that are chosen")
	slices.Sort(all)
	check.Equal(t, len(slices.Compact(slices.Clone(all))), len(all), "names of bugs")
	first := map[string]bool{}
	for seed := range 20 * len(bugs) {
		order := names(choose(bugs, nil, strconv.Itoa(seed+1)))
		first[order[0]] = true
		slices.Sort(order)
		if !slices.Equal(order, all) {
			t.Fatalf("a seed chooses %q, want %q", order, all)
		}
	}
	check.Equal(t, len(first), len(bugs), "bugs that ever come first")
	if a, b := names(choose(bugs, nil, "a commit")), names(choose(bugs, nil, "a commit")); !slices.Equal(a, b) {
		t.Errorf("one seed gives %q and %q", a, b)
	}
	check.Diff(t, names(choose(bugs, []string{"claimed job", "no such"}, "")), []string{"a claimed job is claimed again"}, "chosen by a word")
}

// TestFindings holds that only a test that failed counts as one that noticed, and once.
func TestFindings(t *testing.T) {
	const failed = "--- FAIL: TestOne (0.01s)\n    --- FAIL: TestOne/part (0.00s)\n"
	check.Diff(t, findings([]byte("=== some\n"+failed+"FAIL\n"+failed), failedTest), []string{"TestOne"}, "tests that noticed")
	check.Empty(t, findings([]byte("signal: killed\nFAIL\n"), failedTest), "tests that noticed in a run without a failed one")
}
