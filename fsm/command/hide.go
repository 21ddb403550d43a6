package command

import "errors"

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

func (c *Hide) check() error {
	return errors.Join(
		c.Order.check(),
		checkRange("ids and agents", len(c.IDs)+len(c.Agents), 1, MaxHidden, "items"),
		checkAll("ids", c.IDs, MaxHidden, textOf("id", MaxTarget)),
		checkAll("agents", c.Agents, MaxHidden, bytesOf("agent", MaxNameKeyBytes)),
	)
}
