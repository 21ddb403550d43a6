package view

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
)

// Or separates the values of a field of a Query. No value contains it.
const Or = "\x00"

// Query selects entries, or jobs, requests for help or profiles. Each list uses the fields that its
// comment names, and ignores the others. Every field narrows; zero values select everything. Kind,
// Channel, AgentKey and TagKey may have several values with Or between them: any of these.
type Query struct {
	Kind       string // of this kind (command.Kind.String)
	Channel    string // in this channel (text.ChannelName)
	AgentKey   string // written by this agent (text.Fold)
	ForKey     string // in this agent's inbox: by others, to its entries or mentioning it
	TagKey     string // with this tag (text.FoldTag)
	Thread     uint64 // of the conversation that this entry belongs to
	ReplyTo    uint64 // with relation reply to this entry
	Since      int64  // CreatedAt > Since, in milliseconds; see View.Instant for negative values
	Q          string // matching this search text (text.ParseQuery)
	AnyWord    bool   // with one word of Q instead of all, ranked by the number of words
	Unanswered bool   // questions and requests for help without an answer by another
	Limit      int    // at most MaxList; 0 means DefaultList
	Before     uint64 // seq < Before; 0 means from the newest
	Oldest     bool   // the oldest first; only with a Thread, and without Q and Unanswered
	After      uint64 // seq > After, if Oldest is set
	Work       *int   // grows by the steps of the search, unless nil

	JobStatus   state.JobStatus // of jobs, at the instant of the view
	ClaimantKey string          // jobs that are claimed by this agent (text.Fold)
	HelpStatus  state.HelpStatus
}

// List returns the seqs of the entries that match q, newest first, and the
// Before of the next page; 0 on the last page. If a match has to be looked at, a page may be
// short, and yet not be the last one. With AnyWord there is one page, the best match first.
func (v *View) List(q Query) (seqs []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: state.PageLimit(q.Limit), Work: q.Work}
	phrases, some, err := v.translate(q, &search)
	if err != nil || !some {
		return nil, 0, err
	}
	switch {
	case q.Oldest:
		return v.oldest(search, q)
	case q.AnyWord:
		seqs, err = v.rank(q.Q, search)
		return seqs, 0, err
	case q.ShowsStubs():
		return v.searchAll(search)
	}
	return v.filter(search, phrases, nil, v.unansweredCheck(q.Unanswered))
}

// ShowsStubs reports whether the list includes hidden entries, as stubs in a thread.
func (q *Query) ShowsStubs() bool { return q.Thread != 0 && q.NamesNothingHidden() }

// NamesNothingHidden reports whether a query uses no field that hiding removes.
func (q *Query) NamesNothingHidden() bool {
	return q.Kind == "" && q.AgentKey == "" && q.ForKey == "" && q.TagKey == "" && q.Q == "" && !q.Unanswered
}

// search returns matching entries that are not hidden, and the Before of the next page, or
// 0.
func (v *View) search(q index.Query) (seqs []uint64, next uint64, err error) {
	if v.at.Hidden > 0 {
		q.Without = v.hiddenIn
	}
	return v.searchAll(q)
}

// searchAll is search with the hidden entries.
func (v *View) searchAll(q index.Query) (seqs []uint64, next uint64, err error) {
	seqs, more, err := v.cut.Search(v.snap, q)
	if err == nil && more {
		next = seqs[len(seqs)-1]
	}
	return seqs, next, err
}

// oldest returns the oldest entries of a search that are newer than q.After, oldest first, and
// the After of the next page, or 0. The index finds the newest first, so oldest looks for the
// bound below which a page has room: it takes a search for each halving of the distance.
func (v *View) oldest(search index.Query, q Query) (seqs []uint64, next uint64, err error) {
	find := v.search
	if q.ShowsStubs() {
		find = v.searchAll
	}
	search.Min = max(search.Min, q.After+1)
	seqs, more, err := find(search)
	if err != nil {
		return nil, 0, err
	}
	for low, high := search.Min, v.at.Head.LastSeq+1; more != 0; {
		search.Before = low + (high-low)/2
		found, more, err := find(search)
		if err != nil {
			return nil, 0, err
		}
		if more == 0 && len(found) == search.Limit {
			seqs, next = found, found[0]
			break
		}
		if more != 0 {
			high = search.Before
		} else {
			low = search.Before
		}
	}
	slices.Reverse(seqs)
	return seqs, next, nil
}

const (
	// MaxFiltered is how many hits of a search filter looks at for one page.
	MaxFiltered = 4096
	// FilterStep is how many of them it looks at in one step.
	FilterStep = 32
)

// check returns those of the seqs that meet a condition, in their order. nil means no condition.
type check func(seqs []uint64) ([]uint64, error)

// filter lists the hits of a search that have all phrases and pass a check. It looks at a
// bounded number of hits: a page may be short, and yet not be the last page. skip may be nil.
// Given a Before, it returns the Before of the newest hit that could pass, or 0 at the end.
func (v *View) filter(search index.Query, phrases [][]string, skip func(before uint64) (uint64, error), passes check) (found []uint64, next uint64, err error) {
	if len(phrases) == 0 && skip == nil && passes == nil { // no hit has to be looked at
		return v.search(search)
	}
	limit, most := search.Limit, MaxFiltered
	if len(phrases) > 0 {
		most = command.MaxPhrased
	}
	for looked := 0; looked < most; {
		if skip != nil {
			if search.Before, err = skip(search.Before); err != nil || search.Before == 0 {
				return found, 0, err
			}
		}
		search.Limit = min(FilterStep, most-looked)
		hits, more, err := v.search(search)
		if err != nil {
			return nil, 0, err
		}
		looked += len(hits)
		if search.Work != nil {
			*search.Work += len(hits)
		}
		for _, check := range [...]check{passes, v.phraseCheck(phrases, search.Work)} {
			if check == nil {
				continue
			}
			if hits, err = check(hits); err != nil {
				return nil, 0, err
			}
		}
		if found = append(found, hits...); len(found) > limit {
			return found[:limit], found[limit-1], nil
		}
		if search.Before = more; more == 0 {
			break
		}
	}
	return found, search.Before, nil
}

// rowCheck checks the rows of entries in a keyspace.
func (v *View) rowCheck(space byte, wanted func(row []byte) (bool, error)) check {
	return func(seqs []uint64) (passed []uint64, err error) {
		rows, err := v.readRows(space, seqs, nil)
		if err != nil {
			return nil, err
		}
		for i, seq := range seqs {
			if rows[i] == nil {
				return nil, fmt.Errorf("%w: row %c of entry %d is missing", state.ErrCorrupt, space, seq)
			}
			ok, err := wanted(rows[i])
			if err != nil {
				return nil, err
			}
			if ok {
				passed = append(passed, seq)
			}
		}
		return passed, nil
	}
}

// textStep is the number of bytes of an entry that cost as much as a step of a search if
// phrases are looked for in its texts.
const textStep = 16

// phraseCheck checks that each phrase occurs in a text of an entry.
func (v *View) phraseCheck(phrases [][]string, work *int) check {
	if len(phrases) == 0 {
		return nil
	}
	return v.rowCheck(state.SpaceEntry, func(row []byte) (bool, error) {
		if work != nil {
			*work += len(row) / textStep
		}
		return hasPhrases(row, phrases)
	})
}

// hasPhrases reports whether each phrase occurs in a text of an entry's row.
func hasPhrases(row []byte, phrases [][]string) (bool, error) {
	o, err := state.OutlineOf(row)
	if err != nil {
		return false, err
	}
	texts, err := o.Texts()
	if err != nil {
		return false, err
	}
	var sequences [][]string
	for _, s := range append(texts.Tags, texts.Title, texts.Body) {
		sequences = append(sequences, text.Sequence(s))
	}
	return !slices.ContainsFunc(phrases, func(phrase []string) bool {
		return !slices.ContainsFunc(sequences, func(s []string) bool { return text.HasPhrase(s, phrase) })
	}), nil
}

// unansweredCheck checks that an entry waits for an answer.
func (v *View) unansweredCheck(wanted bool) check {
	if !wanted {
		return nil
	}
	return func(seqs []uint64) (passed []uint64, err error) {
		rows, err := v.readRows(state.SpaceEntry, seqs, v.rows.Recent.Get)
		if err != nil {
			return nil, err
		}
		for i, seq := range seqs {
			e, err := state.DecodeEntryRow(seq, rows[i])
			if err != nil {
				return nil, err
			}
			if !e.Waits() {
				continue
			}
			_, waits, err := state.GetRow(v.snap, home.ItemKey(e.AgentKey, home.PartAsked, seq))
			if err != nil {
				return nil, err
			}
			if waits {
				passed = append(passed, seq)
			}
		}
		return passed, nil
	}
}

// rank returns the newest MaxRanked entries with one of the words of a search text, those
// with the most words first, at most search.Limit. search has the other conditions.
func (v *View) rank(q string, search index.Query) (seqs []uint64, err error) {
	p, limit := text.ParseQuery(q), search.Limit
	search.Limit, search.Prefix = command.MaxRanked, ""
	words := make(map[uint64]int)
	count := func(search index.Query) error {
		found, _, err := v.search(search)
		for _, seq := range found {
			words[seq]++
		}
		if search.Work != nil {
			*search.Work += len(found)
		}
		return err
	}
	// The newest matches of all words are among the newest of each one.
	filters := search.All
	for _, word := range p.Words {
		search.All = slices.Concat([]string{state.TermWord + word}, filters)
		if err := count(search); err != nil {
			return nil, err
		}
	}
	if search.All, search.Prefix = filters, p.Prefix; p.Prefix != "" {
		if err := count(search); err != nil {
			return nil, err
		}
	}
	seqs = newestOf(slices.Collect(maps.Keys(words)), command.MaxRanked)
	slices.SortStableFunc(seqs, func(a, b uint64) int { return cmp.Compare(words[b], words[a]) })
	return seqs[:min(len(seqs), limit)], nil
}

// searchOf returns the search for a page of entries of a type, by an author and with a search text
// if given, and the phrases of that.
func searchOf(t state.EntryType, q Query) (search index.Query, phrases [][]string, some bool) {
	search = index.Query{
		All: []string{state.TermType + string(rune(t))}, Min: 1, Before: q.Before, Limit: state.PageLimit(q.Limit), Work: q.Work,
	}
	addTerm(&search, state.TermAgent, q.AgentKey)
	phrases, some = addText(q.Q, &search)
	return search, phrases, some
}

// addTerm adds a field of a query, which may be empty or have several values.
func addTerm(search *index.Query, class, value string) {
	switch {
	case value == "":
	case !strings.Contains(value, Or):
		search.All = append(search.All, class+value)
	default:
		var group []string
		for one := range strings.SplitSeq(value, Or) {
			group = append(group, class+one)
		}
		search.Any = append(search.Any, group)
	}
}

// Instant resolves a time in milliseconds since the epoch. Negative times below -1 are
// relative to the time of the view. -1 is no time.
func (v *View) Instant(at int64) int64 {
	if at < -1 {
		return max(0, v.at.Head.Now+at)
	}
	return at
}

// translate adds a query to one of the index, except its words if AnyWord is set. It returns
// false if no entry can match, and the phrases of the search text, which need a look at the entries.
func (v *View) translate(q Query, search *index.Query) (phrases [][]string, some bool, err error) {
	if since := v.Instant(q.Since); since >= 0 {
		var ok bool
		if search.Min, ok, err = v.FirstAfter(since); err != nil || !ok {
			return nil, false, err
		}
	}
	addTerm(search, state.TermKind, q.Kind)
	addTerm(search, state.TermChannel, q.Channel)
	addTerm(search, state.TermAgent, q.AgentKey)
	addTerm(search, state.TermInbox, q.ForKey)
	addTerm(search, state.TermTag, q.TagKey)
	if q.ReplyTo > 0 {
		search.All = append(search.All, state.TermParent+state.EntryID(q.ReplyTo))
	}
	filters := len(search.All)
	if phrases, some = addText(q.Q, search); !some {
		return nil, false, nil
	}
	if q.AnyWord {
		search.All, search.Prefix = search.All[:filters], ""
	}
	if q.Thread == 0 {
		return phrases, true, nil
	}
	m, ok, err := v.Meta(q.Thread)
	if err != nil || !ok {
		return nil, false, err
	}
	// The root lacks the term: it was indexed before there was a conversation.
	search.All = append(search.All, state.TermThread+state.EntryID(m.Thread))
	search.Also = m.Thread
	return phrases, true, nil
}

// FirstAfter returns the first entry that is newer than an instant, if there is one.
func (v *View) FirstAfter(since int64) (seq uint64, ok bool, err error) {
	seq, _, ok, err = v.nextInstant(since)
	return seq, ok, err
}

// nextInstant returns the first instant after since with entries, and the first of these.
func (v *View) nextInstant(since int64) (seq uint64, at int64, ok bool, err error) {
	if since >= v.at.Head.Now {
		return 0, 0, false, nil
	}
	if g := v.rows.Gaps.Around(since); g != nil {
		if g.Seq > v.at.Head.LastSeq { // the view is older
			return 0, 0, false, nil
		}
		return g.Seq, g.End, true, nil
	}
	_, upper := state.SpaceBounds(state.SpaceInstant)
	err = state.ScanSpace(v.snap, state.SeqKey(state.SpaceInstant, uint64(since)+1), upper, func(key, row []byte) (err error) {
		if seq, err = state.DecodeNumber(row); err != nil {
			return err
		}
		at, ok = int64(state.SeqOfKey(key)), true
		return state.ErrEnough
	})
	if err == nil && ok {
		v.rows.Gaps.Put(&state.Gap{After: since, End: at, Seq: seq})
	}
	return seq, at, ok, err
}

// addText adds a search text, and returns its phrases. It returns false for a text without
// words, which matches no entry.
func addText(q string, search *index.Query) (phrases [][]string, some bool) {
	if q == "" {
		return nil, true
	}
	p := text.ParseQuery(q)
	for _, word := range p.Words {
		search.All = append(search.All, state.TermWord+word)
	}
	for _, group := range p.Not {
		for i, word := range group {
			group[i] = state.TermWord + word
		}
		search.Not = append(search.Not, group)
	}
	search.Prefix = p.Prefix
	return p.Phrases, len(p.Words)+len(p.Not) > 0 || p.Prefix != ""
}

// hiddenIn returns the hidden entries of a block.
func (v *View) hiddenIn(block uint64) (index.Bitmap, error) {
	bits, _, err := state.GetRow(v.snap, state.SeqKey(state.SpaceHiddenBits, block))
	return bits, err
}

// newestOf returns the highest limit of the seqs, each once, highest first.
func newestOf(seqs []uint64, limit int) []uint64 {
	slices.SortFunc(seqs, func(a, b uint64) int { return cmp.Compare(b, a) })
	seqs = slices.Compact(seqs)
	return seqs[:min(len(seqs), limit)]
}

// cutPage cuts a list to a page. A seq after the limit means another page.
func cutPage(seqs []uint64, limit int) (page []uint64, next uint64) {
	if len(seqs) <= limit {
		return seqs, 0
	}
	return seqs[:limit], seqs[limit-1]
}

// SeqsBefore returns at most limit seqs behind a prefix of keys, highest first, below
// before.
func (v *View) SeqsBefore(prefix []byte, before uint64, limit int) (seqs []uint64, err error) {
	upper := slices.Clone(prefix)
	if before > 0 {
		upper = binary.BigEndian.AppendUint64(upper, before)
	} else {
		upper[len(upper)-1]++
	}
	err = state.ScanBack(v.snap, prefix, upper, func(key, _ []byte) error {
		if len(seqs) == limit {
			return state.ErrEnough
		}
		seqs = append(seqs, binary.BigEndian.Uint64(key[len(prefix):]))
		return nil
	})
	return seqs, err
}

// listed returns which of the given entries, in their order, match a query.
func (v *View) listed(seqs []uint64, q Query) (map[uint64]bool, error) {
	q.Since = -1
	search := index.Query{Work: q.Work}
	listed := make(map[uint64]bool)
	phrases, some, err := v.translate(q, &search)
	if err != nil || !some {
		return listed, err
	}
	hasPhrases := v.phraseCheck(phrases, q.Work)
	find := v.search
	if q.NamesNothingHidden() {
		find = v.searchAll
	}
	for len(seqs) > 0 {
		n := 1 // as many as follow one another
		for n < len(seqs) && seqs[n] == seqs[0]+uint64(n) {
			n++
		}
		search.Min, search.Before, search.Limit = seqs[0], seqs[n-1]+1, n
		found, _, err := find(search)
		if err == nil && hasPhrases != nil {
			found, err = hasPhrases(found)
		}
		if err != nil {
			return nil, err
		}
		for _, seq := range found {
			listed[seq] = true
		}
		seqs = seqs[n:]
	}
	return listed, nil
}
