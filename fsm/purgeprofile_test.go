package fsm

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// wordyProfile says the word in every field.
func wordyProfile(agent, key string) *command.Register {
	const w = purgedWord
	return fsmtest.Register(agent, key, func(c *command.Register) {
		c.Given = command.FieldDescription | command.FieldCapabilities | command.FieldEndpoint | command.FieldNote | command.FieldNotifyURL | command.FieldProtected
		c.Description, c.Note, c.Capabilities = "Sells "+w, "Sell "+w+" today", []string{strings.ToLower(w)}
		c.Endpoint, c.NotifyURL, c.NotifyVerified, c.Protected = "https://"+w+".example", "https://"+w+".example/hook", true, false
		c.NotifySalt = fsmtest.Salt("a")
	})
}

// TestPurgeOfAProfile: what its owner wrote leaves every answer and every file, in its
// former versions, too. The name stays its owner's, who can write anew.
func TestPurgeOfAProfile(t *testing.T) {
	for name, hideFirst := range map[string]bool{"shown": false, "hidden": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.Register("ada", "k-ada", nil))
			r.Run(wordyProfile("eve", "k-eve"))
			again := wordyProfile("eve", "k-eve")
			again.Note, again.Proof.Key = "Another "+purgedWord+" note", fsmtest.KeyHash("k-eve")
			fsmtest.Expect(t, r.Run(again)[0], command.OutcomeDone, "changing the profile")
			r.Publish(func(p *command.Publish) { p.Mentions = []string{"eve"}; p.Body = "Hello, @eve." })
			before, _ := r.Profile("ada")
			if hideFirst {
				r.Run(&command.Hide{Order: fsmtest.ByOperator, Agents: []string{"eve"}})
			}
			must.Do(t, r.store.Flush())
			if found := r.find(); len(found) == 0 {
				t.Fatal("the word is in no file before it is purged: the test finds nothing")
			}
			order := &command.Purge{Order: fsmtest.ByOperator, Agents: []string{"eve", "nobody"}}
			if got := r.Run(order, order); got[0].Outcome != command.OutcomeDone || got[1].Outcome != command.OutcomeUnchanged {
				t.Fatalf("purge: %+v", got)
			}
			doc, _ := r.Profile("eve")
			if strings.Contains(strings.ToLower(doc), strings.ToLower(purgedWord)) || !strings.Contains(doc, `"purged":true`) || !strings.Contains(doc, `"id":"eve"`) {
				t.Errorf("the profile is %s", doc)
			}
			if o := r.Outbox("eve"); o.Active || o.Waiting > 0 {
				t.Errorf("the receiver goes on: %+v", o)
			}
			r.erase()
			check.Empty(t, r.find(), "files with the word")
			after, _ := r.Profile("ada")
			check.Equal(t, after, before, "another profile")
			check.Equal(t, r.HasKey("eve", "k-eve"), true, "the owner has its key")
			anew := fsmtest.Register("eve", "k-eve", func(c *command.Register) { c.Description, c.Proof.Key = "Sells honey now", fsmtest.KeyHash("k-eve") })
			r.Run(anew)
			r.Run(&command.Hide{Order: fsmtest.ByOperator, Agents: []string{"eve"}, Unhide: true})
			if doc, _ := r.Profile("eve"); !strings.Contains(doc, "honey") || strings.Contains(doc, "purged") {
				t.Errorf("what the owner wrote anew is %s", doc)
			}
		})
	}
}

// TestPurgeOfAProfileIsListed: a list purges the profile again in an older state, and not
// what its owner wrote since.
func TestPurgeOfAProfileIsListed(t *testing.T) {
	r := newRig(t)
	r.Run(wordyProfile("eve", "k-eve"))
	r.Run(&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"eve"}})
	var list []state.Purge
	v := r.View()
	must.Do(t, v.Purges(0, func(p state.Purge) error { list = append(list, p); return nil }))
	v.Release()
	if len(list) != 1 || list[0].ID != "@eve" {
		t.Fatalf("listed are %+v", list)
	}
	older := newRig(t)
	older.Run(wordyProfile("eve", "k-eve"))
	for i, want := range []int{1, 0} {
		check.Equal(t, must.Get(older.PurgeListed(list, "again"))(t), want, "time %d: purged", i)
	}
	if doc, _ := older.Profile("eve"); strings.Contains(doc, purgedWord) || !strings.Contains(doc, `"purged":true`) {
		t.Errorf("the profile of the older state is %s", doc)
	}
	older.Run(fsmtest.Register("eve", "k-eve", func(c *command.Register) { c.Description, c.Proof.Key = "Sells honey now", fsmtest.KeyHash("k-eve") }))
	check.Equal(t, must.Get(older.PurgeListed(list, "again"))(t), 0, "what was written since: purged")
}

// TestPurgeFromASealedBlock: words that the index has sealed leave the files, of entries
// and of profiles, and all others are found as before.
func TestPurgeFromASealedBlock(t *testing.T) {
	longtest.SkipShort(t, "fills a block of the index")
	r := newRig(t)
	ids := publishPurged(r)
	r.Run(wordyProfile("eve", "k-eve"))
	const atOnce = 1024
	for r.store.index.Sealed() <= index.BlockEntries {
		bodies := make([]command.Payload, 0, atOnce)
		for range atOnce {
			bodies = append(bodies, fsmtest.Post("bob", func(p *command.Publish) { p.Title, p.Body = "Filler", "Filler" }))
		}
		r.Run(bodies...)
	}
	r.Run(fsmtest.Register("bob", "k-bob", nil))
	for r.store.profiles.Sealed() <= index.BlockEntries {
		bodies := make([]command.Payload, 0, atOnce)
		for i := range atOnce {
			bodies = append(bodies, fsmtest.Register("bob", "k-bob", func(c *command.Register) {
				c.Description, c.Proof.Key = []string{"Filler", "Another filler"}[i%2], fsmtest.KeyHash("k-bob")
			}))
		}
		r.Run(bodies...)
	}
	must.Do(t, r.store.Flush())
	count := func() int {
		v := r.View()
		defer v.Release()
		all := 0
		for before := uint64(0); ; {
			seqs, next, err := v.List(view.Query{Q: "honest", Since: -1, Before: before, Limit: command.MaxList})
			must.Do(t, err)
			if all += len(seqs); next == 0 {
				return all
			}
			before = next
		}
	}
	honest := count()
	term := strings.ToLower(purgedWord)
	inIndex := func(space byte) bool {
		lower, upper := state.SpaceBounds(space)
		found := false
		must.Do(t, state.ScanSpace(r.store.DB, lower, upper, func(key, _ []byte) error {
			found = found || strings.Contains(string(key), term)
			return nil
		}))
		return found
	}
	if !inIndex(state.SpaceIndex) || !inIndex(state.SpaceProfileIndex) {
		t.Fatal("the word is in no posting before it is purged: the test shows nothing")
	}
	r.Run(fsmtest.Purge(ids...))
	r.erase()
	check.Equal(t, inIndex(state.SpaceIndex), false, "the word still has a posting")
	if !inIndex(state.SpaceProfileIndex) {
		t.Fatal("the profile's word left with those of entries: the test shows nothing")
	}
	r.Run(&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"eve"}})
	r.erase()
	if found := r.find(); len(found) > 0 || inIndex(state.SpaceProfileIndex) {
		t.Errorf("the word is still in %s", found)
	}
	check.Equal(t, count(), honest, "honest entries, as before,")
}

// TestPurgesSince: a purge keeps when the oldest of its texts was written, also one by a list: of a
// profile that is its registration, and of a refused text the purge itself.
func TestPurgesSince(t *testing.T) {
	since := func(r *rig) (list []state.Purge, got map[string]int64) {
		got = map[string]int64{}
		v := r.View()
		defer v.Release()
		must.Do(t, v.Purges(0, func(p state.Purge) error {
			list, got[p.ID] = append(list, p), p.Since
			return nil
		}))
		return list, got
	}
	written := func() (r *rig, want map[string]int64) {
		r, want = newRig(t), map[string]int64{}
		r.Publish(nil)
		want["e1"] = r.Now()
		r.WantDone(fsmtest.Register("Bob", "bob", nil))
		want["@bob"] = r.Now()
		r.WantDone(fsmtest.Register("Bob", "bob", func(c *command.Register) { c.Description, c.Proof.Key = "Reads no more.", fsmtest.KeyHash("bob") }))
		return r, want
	}
	r, want := written()
	r.Run(fsmtest.Purge("e1"))
	r.Run(&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"bob"}})
	list, got := since(r)
	check.Diff(t, got, want, "when the texts of the purges were written")
	older, want := written()
	check.Equal(t, must.Get(older.PurgeListed(list, "again"))(t), len(list), "purges of the list")
	older.Run(fsmtest.Post("eve", func(p *command.Publish) { p.Relation, p.Target = command.RelationReply, "e1" }))
	want[state.RefusedTexts] = older.Now()
	_, got = since(older)
	check.Diff(t, got, want, "when the texts of the purges of a list were written")
}
