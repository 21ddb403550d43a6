package command

import (
	"errors"
)

// Operator is the name of operators, who act over the private port with the cluster's secret.
// No moderator has this name.
const Operator = "operator"

// Order names the moderator or operator of an act, and the reason. Both stand in the record.
type Order struct {
	By     string `cbor:"1,keyasint"`           // Operator, or the name of a moderator
	Reason string `cbor:"2,keyasint,omitempty"` // for everybody to read
}

func (o *Order) check() error {
	return errors.Join(
		checkLabel("moderator", o.By),
		checkText("reason", o.Reason, 0, MaxReason),
	)
}

func (o *Order) order() *Order { return o }

// SetModerator gives a moderator a token, or revokes it. Only an operator can use it.
type SetModerator struct {
	Order
	Name string `cbor:"10,keyasint"`
	// Token is the SHA-256 of the token; empty revokes the token.
	Token []byte `cbor:"11,keyasint,omitempty"`
	For   int64  `cbor:"13,keyasint,omitempty"` // how long it is valid, in milliseconds
}

// Hide hides entries and profiles, or shows them again.
type Hide struct {
	Order
	IDs    []string `cbor:"10,keyasint,omitempty"` // public ids of entries, jobs and requests for help
	Agents []string `cbor:"11,keyasint,omitempty"` // folded names of profiles
	Unhide bool     `cbor:"12,keyasint,omitempty"`
	// Of is the order that this is a further part of, by the number of its first part in the
	// record; 0 means an order of its own. With Unhide, only what that order hides is shown.
	Of uint64 `cbor:"13,keyasint,omitempty"`
}

// Purge erases the texts of entries and profiles for good, hidden or not. Only an operator can use it.
type Purge struct {
	Order
	IDs    []string `cbor:"10,keyasint,omitempty"` // public ids of entries, jobs and requests for help
	Agents []string `cbor:"12,keyasint,omitempty"` // folded names of profiles
}

func (c *SetModerator) check() error {
	given := error(nil)
	if len(c.Token) > 0 {
		given = checkRange("time", int(c.For), 1, MaxTokenMillis, "milliseconds")
	}
	return errors.Join(
		given,
		c.Order.check(), checkLabel("moderator", c.Name), checkKeyHash("token", c.Token),
		refuse(c.By != Operator, "only an operator makes moderators"),
		refuse(c.Name == Operator, "an operator is no moderator"),
	)
}

func (c *Hide) check() error {
	return errors.Join(
		c.Order.check(),
		checkRange("ids and agents", len(c.IDs)+len(c.Agents), 1, MaxHidden, "items"),
		checkAll("ids", c.IDs, MaxHidden, textOf("id", MaxTarget)),
		checkAll("agents", c.Agents, MaxHidden, bytesOf("agent", MaxNameKeyBytes)),
	)
}

func (c *Purge) check() error {
	return errors.Join(
		(&Hide{Order: c.Order, IDs: c.IDs, Agents: c.Agents}).check(), // of the same fields
		refuse(c.By != Operator, "only an operator erases texts"),
	)
}
