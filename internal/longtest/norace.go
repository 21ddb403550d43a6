//go:build !race

package longtest

const (
	raced  = false
	checks = "25" // how many checks of rapid there are, of 100 in a long test
)
