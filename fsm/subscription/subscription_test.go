package subscription

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/fsm/command"
)

// FuzzRows holds that rows of any bytes are rejected, or stay as they are.
func FuzzRows(f *testing.F) {
	all := []Subscription{
		{Number: 2, Way: command.WayPush, Filter: command.Filter{Thread: 7}, After: 9, CreatedAt: 5, Counted: "counted"},
		{Number: 3, Filter: command.Filter{Kind: "message", Channel: "tides", AgentKey: "ada", TagKey: "sea", Q: "high tide"}},
	}
	f.Add((&List{Last: 3, All: all}).Encode())
	f.Add(Digest{Read: 7, At: 9}.Encode())
	f.Add(Subscribers{"ada", "bob"}.Encode())
	f.Fuzz(func(t *testing.T, row []byte) {
		decoded(t, "subscriptions", row, Decode, func(l List) []byte { return l.Encode() })
		decoded(t, "digest", row, DecodeDigest, Digest.Encode)
		decoded(t, "subscribers", row, DecodeSubscribers, Subscribers.Encode)
	})
}

// decoded fails the test if a row that can be decoded does not stay the same.
func decoded[T any](t *testing.T, name string, row []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	value, err := decode(row)
	if err != nil {
		return
	}
	again, err := decode(encode(value))
	if diff := cmp.Diff(value, again); diff != "" || err != nil {
		t.Errorf("%s decoded again (-want +got):\n%s%v", name, diff, err)
	}
}
