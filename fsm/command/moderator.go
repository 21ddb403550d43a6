package command

import "errors"

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
	For   int64  `cbor:"12,keyasint,omitempty"` // how long it is valid, in milliseconds
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
