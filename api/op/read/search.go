package read

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

const (
	// maxNearWords and nearCuts bound the searches that noteEmpty tries: it cuts up to nearCuts
	// letters off one of the last maxNearWords words, and keeps leastPrefix letters.
	maxNearWords = 4
	nearCuts     = 3
	leastPrefix  = 3
)

// noteEmpty explains an empty page of a search, and suggests a successful search: one word is
// shortened and moved to the end, where the beginning of a word is enough. If entries can be
// ranked, it gives the call that does so.
func noteEmpty(c *op.Call, l *Params, next uint64, find func() ([]uint64, uint64, error)) error {
	if next != 0 {
		c.Notes = append(c.Notes, "A call looks at a bounded number of entries, and none of these matches. Continue with cursor=nextCursor.")
		return nil
	}
	words := strings.Fields(l.Query.Q)
	if len(words) == 0 || l.Query.Before != 0 {
		return nil
	}
	p := text.ParseQuery(l.Query.Q)
	ranked := ""
	if count := countWords(&p); slices.Contains(l.Takes, "mode") && len(p.Phrases) == 0 && count > 1 && count <= command.MaxAllValues {
		ranked = " Entries with any of the words, those with the most first: GET " + c.Operation.Path + "?" + l.rankedQuery()
	}
	switch {
	case l.Query.AnyWord:
		c.Notes = append(c.Notes, "No text contains one of these words.")
		return nil
	case len(p.Phrases)+len(p.Not) > 0:
		c.Notes = append(c.Notes, "No text contains all of these words and phrases, and none of the words after a minus sign."+ranked)
		return nil
	}
	note := "No text contains all of these words. All must occur as whole words; for the last one a beginning of three letters is enough."
	asked := l.Query
	defer func() { l.Query = asked }()
	l.Query.Limit = 1
	for cut := range nearCuts {
		for i := range words[:min(len(words), maxNearWords)] {
			i = len(words) - 1 - i
			runes := []rune(words[i])
			if len(runes)-cut-1 < leastPrefix {
				continue
			}
			others := slices.Delete(slices.Clone(words), i, i+1)
			l.Query.Q = strings.Join(append(others, string(runes[:len(runes)-cut-1])), " ")
			seqs, _, err := find()
			if err != nil {
				return err
			}
			if len(seqs) > 0 {
				c.Notes = append(c.Notes, note+" This finds something: q="+l.Query.Q+"."+ranked)
				return nil
			}
		}
	}
	if len(words) > 1 {
		note += " Try fewer words."
	}
	c.Notes = append(c.Notes, note+ranked)
	return nil
}

// countWords returns the number of words that a ranked search counts.
func countWords(p *text.Query) int {
	if p.Prefix != "" {
		return len(p.Words) + 1
	}
	return len(p.Words)
}

// rankedQuery returns the query of a search with the same filters for entries with any of its words.
func (l *Params) rankedQuery() string {
	query := url.Values{"mode": {"any"}}
	for _, m := range l.Repair() {
		switch value := m.Value.(type) {
		case string:
			if m.Name != "since" && m.Name != "mode" {
				query.Set(m.Name, value)
			}
		case int:
			query.Set(m.Name, strconv.Itoa(value))
		case []string:
			query[m.Name] = value
		}
	}
	return query.Encode()
}

// readMode reads the mode of a search. It comes after the parameters that it excludes, except for
// the cursor.
func (l *Params) readMode() {
	switch mode := wire.Word(l.Text("mode", MaxNumber)); mode {
	case "", "all":
		return
	case "any":
	default:
		l.Problems.Add("mode", "must be all or any")
		return
	}
	l.Query.AnyWord = true
	ranks := fmt.Sprintf(" with mode=any, which ranks the newest %d matches", command.MaxRanked)
	p := text.ParseQuery(l.Query.Q)
	switch count := countWords(&p); {
	case l.Problems.Has("q"):
	case l.Query.Q == "":
		l.Problems.Add("mode", "any needs q: the words to search for")
	case len(p.Phrases) > 0:
		l.Problems.Add("q", "may have no phrase in quotation marks%s", ranks)
	case count > command.MaxAllValues:
		l.Problems.Add("q", "may have at most %d words%s; this one has %d", command.MaxAllValues, ranks, count)
	}
	for _, name := range [...]string{"since", "cursor"} {
		if l.Doc.Get(name) != nil && !l.Problems.Has(name) {
			l.Problems.Add(name, "must be left out%s", ranks)
		}
	}
}
