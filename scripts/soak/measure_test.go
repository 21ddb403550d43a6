package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		values []float64 // by row
		want   float64
	}{
		"nothing":           {nil, 0},
		"one value":         {[]float64{5}, 0},
		"flat":              {[]float64{5, 5, 5, 5}, 0},
		"a line":            {[]float64{9, 10, 11}, 0.2},
		"it falls":          {[]float64{11, 10, 9}, -0.2},
		"a saw":             {[]float64{1, 3, 3, 1}, 0},
		"a row without one": {[]float64{9, math.NaN(), 11}, 0.2},
	} {
		s := series{least: map[int]float64{}}
		for row, value := range tt.values {
			if !math.IsNaN(value) {
				s.add(100+row, value+1)
				s.add(100+row, value) // the least counts
				s.add(100+row, value+2)
			}
		}
		s.add(99, 1000) // not in the range
		if got := s.growth(100, 200); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: growth %v, want %v", name, got, tt.want)
		}
	}
}

func TestFilesBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"one", logFile, logFile + ".new"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), make([]byte, 100), 0o600))
	}
	must.Do(t, os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "two")))
	check.Equal(t, must.Get(filesBytes(dir))(t), 100.0, "bytes: a file with two names counts once, the log does not")
}
