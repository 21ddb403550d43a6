package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"golang.org/x/text/encoding/charmap"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestCollect(t *testing.T) {
	koi8 := must.Get(charmap.KOI8R.NewEncoder().String("Жизнь прекрасна\n"))(t)
	chunks := must.Get(collect(fstest.MapFS{
		"people":         {Data: []byte("First one.\n\t\t-- Victor Hugo, Les Mis\n%\nabc\n%\nSecond\r\none\x1b[33m!\x1b[m\n%\nH\bHi\x07 there\n")},
		"people.dat":     {Data: []byte("index")},
		"de/Zitate":      {Data: []byte("Über alles\n%% comment\nWeiter unten\n")},
		"ru/life":        {Data: []byte(koi8)},
		"chinese":        {Data: []byte("人生得意須盡歡\n")},
		"es/off/insulto": {Data: []byte("never published\n")},
	}))(t)
	var got []string
	for _, c := range chunks {
		for _, text := range c.texts {
			got = append(got, fmt.Sprintf("%s %q by %q", c.channel(), text.body, text.author))
		}
	}
	want := []string{
		`zh-chinese "人生得意須盡歡" by ""`,
		`de-zitate "Über alles" by ""`,
		`de-zitate "Weiter unten" by ""`,
		`en-people "First one.\n\t\t-- Victor Hugo, Les Mis" by "Victor Hugo"`,
		`en-people "Second\none!" by ""`,
		`en-people "Hi there" by ""`,
		`ru-life "Жизнь прекрасна" by ""`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	long := split(strings.Repeat("ж", maxBody+1))
	if len(long) != 1 || len([]rune(long[0].body)) != maxBody {
		t.Errorf("a long text was not cut to %d characters", maxBody)
	}
}

// fakeService answers publications with ids and knows request ids.
type fakeService struct {
	mu      sync.Mutex
	entries map[string]client.NewEntry // by request id
	ids     map[string]string          // request id by id
	fail    int                        // requests to answer 503 first
}

func (s *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var e client.NewEntry
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, known := s.entries[e.RequestID]
	if !known {
		s.entries[e.RequestID] = e
		s.ids["e"+e.RequestID] = e.RequestID
		w.WriteHeader(http.StatusCreated)
	}
	fmt.Fprintf(w, `{"entry":{"id":"e%s"},"duplicate":%v}`, e.RequestID, known)
}

func TestPublishAll(t *testing.T) {
	service := &fakeService{entries: map[string]client.NewEntry{}, ids: map[string]string{}, fail: 3}
	server := httptest.NewServer(service)
	defer server.Close()
	var chunks []chunk
	for c := range 4 {
		ch := chunk{language: "en", collection: fmt.Sprintf("c%d", c)}
		for i := range 12 {
			ch.texts = append(ch.texts, text{body: fmt.Sprintf("text %d", i)})
		}
		chunks = append(chunks, ch)
	}
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for run := range 2 {
		p := newPublisher([]string{server.URL, dead.URL}, 3)
		must.Do(t, p.publishAll(t.Context(), chunks, 3))
		if created, known := p.created.Load(), p.known.Load(); created+known != 48 || (run == 0) != (created == 48) {
			t.Errorf("run %d: %d created, %d known", run, created, known)
		}
	}
	replies := 0
	for _, e := range service.entries {
		if e.ReplyTo == "" {
			continue
		}
		replies++
		target, ok := service.entries[service.ids[e.ReplyTo]]
		if !ok || target.Channel != e.Channel {
			t.Errorf("%+v replies to %+v", e, target)
		}
	}
	check.Equal(t, replies, 8, "replies in 4 collections")
}

func TestARejectionEndsIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	p := newPublisher([]string{server.URL}, 2)
	p.config.Patience = -1
	err := p.publishAll(t.Context(), []chunk{{"en", "x", []text{{body: "some text"}}}}, 2)
	check.ErrText(t, err, "rate limits are on", "error")
}
