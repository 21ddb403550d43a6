package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/commons-cluster/commons/scripts/harness"
)

// tolerated is by how much of its mean a measurement may grow over the last half of a run.
const tolerated = 0.10

// series is one measurement: the least value in each row.
type series struct {
	judged bool
	least  map[int]float64
}

func (s *series) add(row int, value float64) {
	if before, ok := s.least[row]; !ok || value < before {
		s.least[row] = value
	}
}

// rows returns the rows in [from, to) that have a value, in order.
func (s *series) rows(from, to int) []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.least)), func(row int) bool { return row < from || row >= to })
}

// largest returns the largest value of the rows in [from, to), 0 without one.
func (s *series) largest(from, to int) (most float64) {
	for _, row := range s.rows(from, to) {
		most = max(most, s.least[row])
	}
	return most
}

// growth returns how much the line of least squares through the values in [from, to) rises from
// the first to the last, as a part of their mean; 0 with fewer than two values.
func (s *series) growth(from, to int) float64 {
	rows := s.rows(from, to)
	n := float64(len(rows))
	var x, y, xx, xy float64
	for _, row := range rows {
		at, value := float64(row), s.least[row]
		x, y, xx, xy = x+at, y+value, xx+at*at, xy+at*value
	}
	if len(rows) < 2 || y == 0 {
		return 0
	}
	slope := (n*xy - x*y) / (n*xx - x*x)
	return slope * float64(rows[len(rows)-1]-rows[0]) / (y / n)
}

// The measurements of a node, and of its metrics.
const (
	memoryBytes = "resident bytes"
	descriptors = "descriptors without tables"
	goroutines  = "goroutines"
	diskBytes   = "bytes of rows and index" // without the stubs, which stay for good
	stubBytes   = 109                       // of one, see docs/operating/operate.md
	logFile     = "raft.db"
)

var metrics = map[string]string{
	"process_resident_memory_bytes":   memoryBytes,
	"go_goroutines":                   goroutines,
	"commons_retention_swept_entries": diskBytes,
}

// measure asks a node, and looks at its directory.
func measure(n *harness.Node) (map[string]float64, error) {
	res, err := n.Raw(http.MethodGet, "/metrics", "", http.StatusOK)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(string(res.Body))); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if measured := metrics[name]; measured != "" {
			var value float64
			if _, err := fmt.Sscan(text, &value); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", name, n.Name, err)
			}
			values[measured] = value
		}
	}
	if len(values) != len(metrics) {
		return nil, fmt.Errorf("%s has only %v of its metrics", n.Name, values)
	}
	size, errSize := filesBytes(n.Dir)
	values[diskBytes] = size - stubBytes*values[diskBytes]
	open, errOpen := openFiles(fmt.Sprintf("/proc/%d/fd", n.PID()))
	values[descriptors] = open
	return values, errors.Join(errSize, errOpen)
}

// openFiles counts the open files in a directory of /proc. It leaves out tables of the state: their
// number grows with that of the stubs.
func openFiles(dir string) (n float64, err error) {
	links, err := os.ReadDir(dir)
	for _, link := range links {
		if file, _ := os.Readlink(filepath.Join(dir, link.Name())); filepath.Ext(file) != ".sst" { // "": it was closed meanwhile
			n++
		}
	}
	return n, err
}

// filesBytes returns the bytes of all files of a directory but the log. A file with several
// names counts once.
func filesBytes(dir string) (sum float64, err error) {
	known := map[uint64]bool{}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the node has deleted it meanwhile
		case err != nil || d.IsDir() || strings.HasPrefix(d.Name(), logFile):
			return err
		}
		if node := info.Sys().(*syscall.Stat_t).Ino; !known[node] {
			known[node] = true
			sum += float64(info.Size())
		}
		return nil
	})
	return sum, err
}

// usedPages returns how many pages of the log's file are in use. The node does not run.
func usedPages(n *harness.Node) (pages float64) {
	db := harness.Got(bbolt.Open(filepath.Join(n.Dir, logFile), 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true}))
	defer db.Close()
	harness.Must(db.View(func(tx *bbolt.Tx) error {
		pages = float64(tx.Size()/int64(db.Info().PageSize)) - float64(db.Stats().FreePageN)
		return nil
	}))
	return pages
}
