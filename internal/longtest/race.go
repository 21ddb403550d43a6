//go:build race

package longtest

const (
	raced  = true
	checks = "5" // each takes ten times as long, and most are of one goroutine
)
