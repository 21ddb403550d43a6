package api

import (
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestLongAnswerKeepsThePooledBuffer: the pool of response buffers drops buffers larger than
// typical answers need. So a buffer that an answer fits into must not be
// replaced by a larger one: with each long answer the next one would need two new ones.
func TestLongAnswerKeepsThePooledBuffer(t *testing.T) {
	const size = 64 << 10
	for name, of := range map[string]struct {
		pooled int
		keeps  bool
	}{
		"of the size":      {size, true},
		"larger":           {size + 1, true},
		"too small for it": {size - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			pooled := make([]byte, of.pooled)
			var rctx fasthttp.RequestCtx
			rctx.Response.SwapBody(pooled)
			c := &(&Server{}).newExchange(&rctx).Call
			must.Do(t, c.AnswerOf(size, http.StatusOK, func(dst []byte) ([]byte, error) {
				if cap(dst) < size {
					t.Errorf("room for %d of %d bytes", cap(dst), size)
				}
				return append(dst, make([]byte, size)...), nil
			}))
			check.Equal(t, &c.Out.Body[0] == &pooled[0], of.keeps, "the pooled buffer is kept")
		})
	}
}
