package op

import (
	"net/netip"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/internal/check"
)

// TestPause: the pause between two looks grows with the number of those who wait, to a bound, and
// lasts until the client has a budget again.
func TestPause(t *testing.T) {
	now := time.Now()
	client := guard.ClientOf(netip.MustParseAddr("192.0.2.1"))
	env := &Environment{Guard: guard.New(guard.Limits{ReadWork: 100, Now: func() time.Time { return now }})}
	for followers, want := range map[int]time.Duration{
		0: 0, 4: 0, 5: time.Millisecond, 1000: 200 * time.Millisecond, 5000: time.Second, 50_000: time.Second,
	} {
		env.News.followers = followers
		check.Equal(t, env.Pause(client), want, "pause of %d", followers)
	}
	env.News.followers = 1000
	env.Guard.Reads.Use(client, 3000) // the burst
	env.Guard.Reads.Use(client, 500)
	check.Equal(t, env.Pause(client), 5*time.Second, "pause of a client that owes five seconds")
	check.Equal(t, env.Pause(guard.ClientOf(netip.MustParseAddr("192.0.2.2"))), 200*time.Millisecond, "pause of another")
}
