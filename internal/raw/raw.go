// Package raw makes HTTP requests that package client does not: wrong ones, and those whose
// headers or bytes a test looks at.
package raw

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const maxBody = 8 << 20

// Response is an answer, read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request and returns the answer, whatever its status is. Headers are name and
// value by turns. A body that begins with a brace is JSON unless they say otherwise.
func Do(ctx context.Context, h *http.Client, method, url, body string, headers ...string) (*Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	return &Response{res.StatusCode, res.Header, data}, err
}

// Decode reads a JSON answer.
func (r *Response) Decode(into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("%d %.200q: %w", r.Status, r.Body, err)
	}
	return nil
}
