package op

import (
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
)

// Operation is one method of one path of the interface.
type Operation struct {
	Method string
	Path   string // template; a segment that starts with a colon is a parameter
	// ID is the operationId in the OpenAPI document. Other surfaces run the operation by it,
	// and its calls are counted under it unless the handler sets Call.Action.
	ID     string
	Handle Handler
	Does   string // one line for GET /; "" omits the path there
	// Change explains in a 405 how to change the thing at the path, where {id} is its id.
	Change string
	// Tools names the tools that run it.
	Tools string
	// Params are the parameters of the URL, Fields the fields of the body.
	Params, Fields []string
	// Surface is the surface that it belongs to. 0 means that its calls are not counted: it
	// is for operators.
	Surface command.Surface
	// Page means that it shows the answers of other operations to people.
	Page bool
}

// ShownPath is the path as people and the OpenAPI document write it, with parameters
// in braces.
func (o *Operation) ShownPath() string {
	segments := strings.Split(o.Path, "/")
	for i, s := range segments {
		if name, is := strings.CutPrefix(s, ":"); is {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

// Handler is the first half of an operation: it reads a request and collects its problems. It has
// no effect and does not wait, so that it can run alone (Call.CheckOnly). It returns the second
// half.
type Handler func(c *Call) (Task, error)

// Task is the second half of an operation, for a request without problems.
type Task struct {
	Fresh Freshness // how fresh the local state must be before Run
	// Builds is the maximum number of items of the list that Run makes, or 0.
	Builds int
	// Versioned means that the answer depends only on the request and the view's version: it
	// has an entity tag made of these.
	Versioned bool
	Run       func() error
	// Explain adds advice for the client to an error of the wait, or is nil.
	Explain func(error) error
}

// Freshness is how fresh the local state must be.
type Freshness struct {
	MinIndex uint64
	Strong   bool
}
