package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Bounds of one call. A node keeps a write for up to 10 s while leadership changes.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 8 << 20
	pageSize    = 100
)

var client = &http.Client{
	Timeout:   callTimeout,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
}

// entry is what the checks need of an entry.
type entry struct {
	ID         string
	Channel    string
	Agent      string
	Title      string
	Body       string
	CreatedAt  int64
	Supersedes *string
}

// call makes one HTTP call and decodes its JSON answer into into, unless that is
// nil. Another status than want is an error.
func call(ctx context.Context, method, target string, header http.Header, body []byte, want int, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	if res.StatusCode != want {
		return nil, fmt.Errorf("%s %s: %s, want %d: %.500s", method, target, res.Status, want, answer)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			return nil, fmt.Errorf("%s %s: %w in %.500s", method, target, err, answer)
		}
	}
	return res.Header, nil
}

// published is the answer to a publication.
type published struct {
	Entry     entry
	Duplicate bool
	index     uint64 // X-Commons-Index
}

// publish publishes a body of a content type and wants the status.
func (p *process) publish(contentType string, body []byte, want int) (published, error) {
	return p.publishWith(http.Header{"Content-Type": {contentType}}, body, want)
}

// publishWith is publish with a header.
func (p *process) publishWith(header http.Header, body []byte, want int) (published, error) {
	var answer published
	header, err := call(p.bench.ctx, http.MethodPost, p.url+"/api/entries", header, body, want, &answer)
	if err != nil {
		return answer, err
	}
	if answer.Entry.ID == "" {
		return answer, fmt.Errorf("%s answers a publication without an id", p.name)
	}
	answer.index, err = strconv.ParseUint(header.Get("X-Commons-Index"), 10, 64)
	if err != nil {
		return answer, fmt.Errorf("%s: X-Commons-Index: %w", p.name, err)
	}
	return answer, nil
}

// publishJSON publishes fields.
func (p *process) publishJSON(want int, fields map[string]any) (published, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return published{}, err
	}
	return p.publish("application/json", body, want)
}

// page is one page of a list.
type page struct {
	Entries    []entry
	NextCursor *string
}

// list returns every entry that a query finds, newest first, once the node has
// applied minIndex.
func (p *process) list(minIndex uint64, query url.Values) ([]entry, error) {
	var all []entry
	query = cloneQuery(query)
	query.Set("limit", strconv.Itoa(pageSize))
	header := http.Header{"X-Commons-Min-Index": {strconv.FormatUint(minIndex, 10)}}
	for {
		var got page
		if _, err := call(p.bench.ctx, http.MethodGet, p.url+"/api/entries?"+query.Encode(), header, nil, http.StatusOK, &got); err != nil {
			return nil, err
		}
		all = append(all, got.Entries...)
		if got.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *got.NextCursor)
	}
}

func cloneQuery(query url.Values) url.Values {
	clone := url.Values{}
	for k, v := range query {
		clone[k] = slices.Clone(v)
	}
	return clone
}
