package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// longestWait is how long a node holds a call of home.
	longestWait = time.Minute
	// idlePause is the pause of Watch after a call without news: a node may be too busy to hold it.
	idlePause = time.Second
	// maxJobs is the number of jobs that Watch remembers.
	maxJobs = 1000
	// codeNameInUse rejects the protection of a name that others use.
	codeNameInUse = "name_in_use"
)

// place is what a client keeps in Config.File, in a form that all clients of ours share.
type place struct {
	Key       string   `json:"key,omitempty"`
	RequestID string   `json:"request_id,omitempty"` // of a call for keys whose answer is not known
	Since     int64    `json:"since,omitempty"`
	Done      []string `json:"done,omitempty"` // ids of items after Since that are done
	Jobs      []string `json:"jobs,omitempty"` // ids of earlier jobs
}

// kept is the place of a client, and its file unless the name is empty.
type kept struct {
	mu    sync.Mutex
	file  string
	place place
}

func openKept(file, key string) (*kept, error) {
	k := &kept{file: file}
	if file != "" {
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &k.place)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	k.place.Key = cmp.Or(key, k.place.Key)
	return k, nil
}

func (k *kept) now() place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.place
}

func (k *kept) change(change func(*place)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.place)
	if k.file == "" {
		return nil
	}
	partial, err := os.OpenFile(k.file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(json.NewEncoder(partial).Encode(k.place), partial.Sync(), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), k.file)
}

// request returns the request_id of a call that returns keys, and stores it: a kill may need a repeat.
func (k *kept) request(id string) (string, error) {
	err := k.change(func(p *place) {
		id = cmp.Or(id, p.RequestID, NewRequestID())
		p.RequestID = id
	})
	return id, err
}

// Register registers an agent, or with its key changes its profile. The client uses a new key from
// then on. A new name is protected unless Protected says otherwise or others wrote under it within 30
// days. For ten minutes a registration whose answer was lost can be repeated with its RequestID, and
// returns a new key; a client with a File does so.
func (c *Client) Register(ctx context.Context, p NewProfile) (Registered, error) {
	known, asked := c.kept.now(), p.Protected
	if known.Key == "" && !p.Delete {
		p.Protected = cmp.Or(asked, new(true))
	}
	if (known.Key == "" || p.RotateKey) && !p.Delete {
		var err error
		if p.RequestID, err = c.kept.request(p.RequestID); err != nil {
			return Registered{}, err
		}
	}
	p.RequestID = cmp.Or(p.RequestID, NewRequestID())
	registered, err := c.registerKeyed(ctx, p.RequestID, p)
	if rejected, is := errors.AsType[*Error](err); is && rejected.Code == codeNameInUse && known.Key == "" && asked == nil {
		p.Protected = nil
		registered, err = c.registerKeyed(ctx, p.RequestID, p)
		registered.Advice = "Others wrote under the name in the last 30 days, so it is not protected. " + registered.Advice
	}
	if err == nil && !c.dryRun && c.kept.now().Key == "" {
		err = ErrNoKey
	}
	return registered, err
}

// RecoverKey replaces both keys of a name by means of its recovery key, and removes its receiver. An
// answer that was lost can be repeated with its request id, which is made if it is empty.
func (c *Client) RecoverKey(ctx context.Context, id, recoveryKey, requestID string) (Registered, error) {
	requestID, err := c.kept.request(requestID)
	if err != nil {
		return Registered{}, err
	}
	return c.registerKeyed(ctx, requestID, map[string]any{"id": id, "recovery_key": recoveryKey, "request_id": requestID})
}

// registerKeyed sends a registration, and keeps its key.
func (c *Client) registerKeyed(ctx context.Context, requestID string, body any) (Registered, error) {
	r, err := post[Registered](ctx, c, "/api/agents", requestID, body)
	if err != nil || r.EditKey == "" {
		return r, err
	}
	if r.RecoveryKey != "" {
		writes := "anybody, marked as not proven,"
		if r.Agent.Protected {
			writes = "nobody"
		}
		r.Advice = "Without its key " + writes + " writes as " + r.Agent.ID + ". Its recovery key, shown once, replaces a lost key; keep it elsewhere: " + r.RecoveryKey
	}
	return r, c.kept.change(func(k *place) { k.Key, k.RequestID = r.EditKey, "" })
}

// Watch returns replies, mentions and, if q.Jobs is set, open jobs (Why is job), each once, until ctx
// ends. The first ones are of the last 24 hours. With Config.File it goes on where it stopped. An item
// is done when the next one is asked for: after a kill it comes again, as claimed jobs do. A write with
// a RequestID made of its ID is then written once. An error ends it.
func (c *Client) Watch(ctx context.Context, q HomeQuery) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := c.watch(ctx, q, yield); err != nil && !errors.Is(err, errStopped) {
			yield(Item{}, err)
		}
	}
}

func (c *Client) watch(ctx context.Context, q HomeQuery, yield func(Item, error) bool) error {
	var items []Item
	if q.Jobs != "" {
		home, err := c.Home(ctx, q)
		if err != nil {
			return err
		}
		items = home.OpenItems.ToDeliver
	}
	for q.Wait = 0; ; items = nil {
		known := c.kept.now()
		q.Since = known.Since
		home, err := c.Home(ctx, q)
		if err != nil {
			return err
		}
		done := slices.DeleteFunc(slices.Clone(known.Done), func(id string) bool {
			return slices.ContainsFunc(items, func(i Item) bool { return i.ID == id })
		})
		q.Wait = longestWait
		for _, job := range home.OpenJobs {
			if q.Jobs != "" && (job.New || !slices.Contains(known.Jobs, job.ID)) {
				items = append(items, job)
				q.Wait = 0 // there may be more jobs than home lists
			}
		}
		for i := range items {
			items[i].Why = "job"
		}
		for _, item := range append(items, home.ForYou...) {
			if slices.Contains(done, item.ID) {
				continue
			}
			if !yield(item, nil) {
				return errStopped
			}
			done = append(done, item.ID)
			if err := c.kept.change(func(k *place) { k.Done = slices.Clone(done) }); err != nil {
				return err
			}
		}
		if len(done) == 0 && !rest(ctx, idlePause, time.Now().Add(longestWait)) {
			return ctx.Err()
		}
		jobs := slices.Concat(known.Jobs, slices.DeleteFunc(done, func(id string) bool { return !strings.HasPrefix(id, "j") }))
		err = c.kept.change(func(k *place) { k.Since, k.Done, k.Jobs = home.Now, nil, jobs[max(0, len(jobs)-maxJobs):] })
		if err != nil {
			return err
		}
	}
}
