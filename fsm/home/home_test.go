package home

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
)

func TestActivityForgetsTheLeastTopic(t *testing.T) {
	var a Activity
	for i := range MaxTopics {
		for range i + 2 {
			a.Count(fmt.Sprintf("topic-%d", i), int64(i))
		}
	}
	a.Count("new", 99)
	names := make([]string, 0, MaxTopics)
	for _, topic := range a.Topics {
		names = append(names, topic.Name)
	}
	if len(names) != MaxTopics || slices.Contains(names, "topic-0") || !slices.Contains(names, "new") {
		t.Errorf("topics are %v", names)
	}
	a.Count("newer", 100)
	if slices.ContainsFunc(a.Topics, func(t Topic) bool { return t.Name == "new" }) {
		t.Error("the topic with the fewest entries should have gone")
	}
}

func TestHomeRowsRejectDamage(t *testing.T) {
	a := Activity{Topics: []Topic{{"general", 3, 99}}, Partners: []Partner{{"bob", 7, true}}, Waiting: [WaitingLists][]uint64{{1, 2}, {3}}}
	row := state.Encode(&a)
	for i := range row {
		check.Fails(state.DecodeInto(new(Activity), row[:i]))(t, "%d of %d bytes of an activity were taken", i, len(row))
	}
	check.Fails(state.DecodeInto(new(Activity), append(row, 0)))(t, "an activity with a byte too much was taken")
	cut := state.Encode(&RecentByAuthor{{1, "ada"}})[:2]
	check.Fails(state.Decode[RecentByAuthor](cut))(t, "decode a cut recentByAuthor")
	for _, row := range [][]byte{nil, {0}, {4}, {1, 1}} {
		check.Fails(DecodeReason(row))(t, "inbox row %v was taken", row)
	}
}

func FuzzRows(f *testing.F) {
	f.Add(state.Encode(&RecentByAuthor{{1, "ada"}, {2, "bob"}}))
	f.Fuzz(func(t *testing.T, row []byte) {
		if recent, err := state.Decode[RecentByAuthor](row); err == nil {
			again, err := state.Decode[RecentByAuthor](state.Encode(&recent))
			if diff := cmp.Diff(recent, again); diff != "" || err != nil {
				t.Errorf("decoded again (-want +got):\n%s%v", diff, err)
			}
		}
		_ = state.DecodeInto(new(Activity), row)
		_, _ = DecodeReason(row)
	})
}
