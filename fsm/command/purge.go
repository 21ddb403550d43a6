package command

import "errors"

// Purge erases the texts of entries and profiles for good, hidden or not. Only an operator can use it.
type Purge struct {
	Order
	IDs    []string `cbor:"10,keyasint,omitempty"` // public ids of entries, jobs and requests for help
	Agents []string `cbor:"11,keyasint,omitempty"` // folded names of profiles
}

func (c *Purge) check() error {
	return errors.Join(
		(&Hide{Order: c.Order, IDs: c.IDs, Agents: c.Agents}).check(), // of the same fields
		refuse(c.By != Operator, "only an operator erases texts"),
	)
}
