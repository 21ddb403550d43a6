package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

const (
	// senderShare bounds one sender's part of a receiver's hour: its attempts stay
	// fewer than so many times those that the hour has left. One sender alone gets
	// 25 of 30, and there is room for another at any time.
	senderShare = 5
	// unprovenShare bounds the part of all unproven senders together in the same
	// way: 27 of 30.
	unprovenShare = 9
	// maxUnprovenWaiting is how many deliveries of unproven senders can wait while
	// proven ones want the room.
	maxUnprovenWaiting = MaxWaitingDeliveries / 2
)

// senderGroup stands for whose writes lead to deliveries, where senders share a
// receiver: a hash of the name when it is proven, else of the fingerprint of the
// sender's address. The lowest bit says that it is proven. The hash is one that
// nobody can aim at another's group.
type senderGroup uint64

const provenBit senderGroup = 1

func provenSender(agentKey string) senderGroup { return hashSender(agentKey) | provenBit }

func unprovenSender(fingerprint string) senderGroup { return hashSender(fingerprint) &^ provenBit }

func hashSender(s string) senderGroup {
	sum := sha256.Sum256([]byte(s))
	return senderGroup(binary.LittleEndian.Uint64(sum[:]))
}

func (g senderGroup) proven() bool { return g&provenBit != 0 }

// begunAttempt is an attempt that counts in its receiver's hour.
type begunAttempt struct {
	at   int64 // milliseconds since the epoch
	from senderGroup
}

// hourUse is what senders have used of a receiver's hour.
type hourUse struct {
	by       map[senderGroup]int
	unproven int // of by
	free     int
}

// useOf counts the attempts of an hour.
func useOf(attempts []begunAttempt) hourUse {
	u := hourUse{by: make(map[senderGroup]int), free: MaxHourlyDeliveries}
	for _, b := range attempts {
		u.count(b.from, 1)
	}
	return u
}

// count adds attempts, or takes them away.
func (u *hourUse) count(from senderGroup, n int) {
	u.by[from] += n
	u.free -= n
	if !from.proven() {
		u.unproven += n
	}
}

// room reports whether one more attempt may begin for a sender.
func (u *hourUse) room(from senderGroup) bool {
	return u.by[from] < senderShare*u.free && (from.proven() || u.unproven < unprovenShare*u.free)
}

// lately are the attempts that still count at an instant.
func (o *outbox) lately(now int64) []begunAttempt {
	i := slices.IndexFunc(o.begun, func(b begunAttempt) bool { return b.at > now-hourMillis })
	if i < 0 {
		return nil
	}
	return o.begun[i:]
}

// opens returns from when on the hour has room for each of the senders in the
// queue, in milliseconds since the epoch; 0: at any time.
func (o *outbox) opens() map[senderGroup]int64 {
	at := make(map[senderGroup]int64)
	use := useOf(o.begun)
	var closed []senderGroup
	for _, q := range o.queue {
		if _, seen := at[q.from]; seen {
			continue
		}
		at[q.from] = 0
		if !use.room(q.from) {
			closed = append(closed, q.from)
		}
	}
	for i := 0; len(closed) > 0; i++ {
		use.count(o.begun[i].from, -1)
		closed = slices.DeleteFunc(closed, func(from senderGroup) bool {
			if !use.room(from) {
				return false
			}
			at[from] = o.begun[i].at + hourMillis
			return true
		})
	}
	return at
}

// surplus returns which delivery leaves a queue that is too long: the newest of
// the sender for which most wait. Where unproven senders have filled more than
// their part, it is one of theirs; among equals, too. One that is being sent stays.
func (o *outbox) surplus() int {
	waiting := make(map[senderGroup]int)
	unproven := 0
	for _, q := range o.queue {
		waiting[q.from]++
		if !q.from.proven() {
			unproven++
		}
	}
	worst := -1
	for i, q := range slices.Backward(o.queue) {
		if q.number == o.sending || unproven > maxUnprovenWaiting && q.from.proven() {
			continue
		}
		if worst < 0 {
			worst = i
			continue
		}
		most := o.queue[worst].from
		if n, m := waiting[q.from], waiting[most]; n > m || n == m && most.proven() && !q.from.proven() {
			worst = i
		}
	}
	return worst
}
