package command

// The log and the rows have a pseudonym in place of a sender's address: a hash of the address
// under the data key.

// AnonymousScope ends the scope of request_ids that came without a name: each sender has
// its own. No name holds it.
const AnonymousScope = "@"

// ForgetSenders deletes the pseudonyms that are older than the settings allow, a bounded number
// of them at once.
type ForgetSenders struct{}

func (*ForgetSenders) check() error { return nil }
