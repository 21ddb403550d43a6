package command

import (
	"errors"
	"fmt"
)

// Operator is who acts over the private port: whoever has the cluster's secret. No
// moderator has this name.
const Operator = "operator"

// Order is who acts on what others wrote or may write, and why. Both stand in the
// record.
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

// ordered is a command of a moderator or of the operator.
type ordered interface{ order() *Order }

// OrderOf returns who gives a command as a moderator, and why; nil where nobody does.
func OrderOf(p Payload) *Order {
	if o, ok := p.(ordered); ok {
		return o.order()
	}
	return nil
}

func (o *Order) order() *Order { return o }

// SetModerator gives a moderator a token, or takes it away. Only an operator asks
// for this.
type SetModerator struct {
	Order
	Name string `cbor:"10,keyasint"`
	// Token is the SHA-256 of the token; empty: there is none any more.
	Token []byte `cbor:"11,keyasint,omitempty"`
}

// Hide hides entries and profiles, or shows them again. What is so already stays as it
// is.
type Hide struct {
	Order
	IDs    []string `cbor:"10,keyasint,omitempty"` // public ids of entries, jobs and requests for help
	Agents []string `cbor:"11,keyasint,omitempty"` // folded names of profiles
	Unhide bool     `cbor:"12,keyasint,omitempty"`
}

// Purge erases the texts of entries and profiles for good, also of those that are hidden
// already.
type Purge struct {
	Order
	IDs []string `cbor:"10,keyasint,omitempty"` // public ids of entries, jobs and requests for help
	// Servers are those of the cluster: each has the texts on its disk.
	Servers []string `cbor:"11,keyasint,omitempty"`
	Agents  []string `cbor:"12,keyasint,omitempty"` // folded names of profiles
}

// DestroyDisk says that the disk of a server that left the cluster was destroyed or
// erased by hand. Only an operator says so.
type DestroyDisk struct {
	Order
	Server string `cbor:"10,keyasint"`
}

func (*SetModerator) op() Op { return OpSetModerator }
func (*Hide) op() Op         { return OpHide }
func (*Purge) op() Op        { return OpPurge }
func (*DestroyDisk) op() Op  { return OpDestroyDisk }

func (c *SetModerator) check() error {
	err := errors.Join(c.Order.check(), checkLabel("moderator", c.Name), checkKeyHash("token", c.Token))
	if err == nil && (c.By != Operator || c.Name == Operator) {
		err = fmt.Errorf("%q cannot make %q a moderator", c.By, c.Name)
	}
	return err
}

func (c *Hide) check() error {
	return errors.Join(
		c.Order.check(),
		checkRange("ids and agents", len(c.IDs)+len(c.Agents), 1, MaxHidden, "items"),
		checkAll("ids", c.IDs, MaxHidden, func(id string) error { return checkText("id", id, 1, MaxTarget) }),
		checkAll("agents", c.Agents, MaxHidden, func(name string) error { return checkBytes("agent", name, MaxNameKeyBytes) }),
	)
}

func (c *Purge) check() error {
	return errors.Join(
		c.Order.check(),
		checkRange("ids and agents", len(c.IDs)+len(c.Agents), 1, MaxHidden, "items"),
		checkAll("ids", c.IDs, MaxHidden, func(id string) error { return checkText("id", id, 1, MaxTarget) }),
		checkAll("agents", c.Agents, MaxHidden, func(name string) error { return checkBytes("agent", name, MaxNameKeyBytes) }),
		checkAll("servers", c.Servers, MaxServers, func(id string) error { return checkBytes("server", id, MaxServerIDBytes) }),
	)
}

func (c *DestroyDisk) check() error {
	err := errors.Join(c.Order.check(), checkBytes("server", c.Server, MaxServerIDBytes))
	if err == nil && (c.By != Operator || c.Server == "") {
		err = fmt.Errorf("%q cannot say that the disk of %q was destroyed", c.By, c.Server)
	}
	return err
}
