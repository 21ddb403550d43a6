package dev

import (
	"regexp"
	"time"
)

// Repetitions of one message are shown once in quietFor; quietMessages bounds
// how many messages are remembered.
const (
	quietFor      = 30 * time.Second
	quietMessages = 1000
)

var (
	levelOf   = regexp.MustCompile(`(?:^|\s)level=(\w+)`)
	messageOf = regexp.MustCompile(`\smsg=("(?:[^"\\]|\\.)*"|\S+)`)
	partOf    = regexp.MustCompile(`\spart=\w+`)
)

// filter picks the lines of a log that people should see at once: warnings and
// errors of the node, and what is no log line at all, such as a panic. Those of
// its parts, Raft above all, stay in the file: they warn of every election, and
// who leads is shown anyway.
type filter struct {
	now   func() time.Time
	shown map[string]time.Time
}

func newFilter(now func() time.Time) *filter {
	return &filter{now: now, shown: map[string]time.Time{}}
}

func (f *filter) shows(line string) bool {
	level := levelOf.FindStringSubmatch(line)
	if level == nil {
		return true
	}
	if level[1] == "INFO" || level[1] == "DEBUG" || partOf.MatchString(line) {
		return false
	}
	message := messageOf.FindString(line)
	if last, known := f.shown[message]; known && f.now().Sub(last) < quietFor {
		return false
	}
	if len(f.shown) >= quietMessages {
		clear(f.shown)
	}
	f.shown[message] = f.now()
	return true
}
