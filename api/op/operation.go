package op

import (
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
)

// Operation is one method of one path of the interface.
type Operation struct {
	Method string
	Path   string // template; a segment that starts with a colon is a parameter
	// id is the operationId in the OpenAPI document, under which its calls are counted
	// where the handler knows no finer name, and by which other surfaces run it.
	ID     string
	Handle Handler
	Does   string // one line for GET /; "" leaves the path out of it
	// change says how to change what stands at the path, where {id} is its id.
	Change string
	// tools names the tools that run it.
	Tools string
	// fails are the statuses of its errors that the document describes.
	Fails []int
	// params are the parameters of the URL, fields the names of those of the body.
	Params []string
	Fields []string
	// surface is what it belongs to; 0 for what is for operators, which is not counted.
	Surface command.Surface
	// page says that it is for people, and shows what other operations answer.
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

// Handler is the first half of an operation: it reads a request and collects all
// that is wrong with it. It has no effect and waits for nothing, so that a call can
// be tried. The second half is the task that it returns where nothing is wrong.
type Handler func(c *Call) (Task, error)

// Task is what remains to be done of a request in which nothing is wrong.
type Task struct {
	Fresh Freshness // how fresh the local state must be before run
	// builds is how many items a list may have; 0: the task makes none.
	Builds int
	// versioned says that the answer is made of nothing but the request and what the
	// version of the view says: it has an entity tag made of these.
	Versioned bool
	Run       func() error
	// explain adds to an error of the wait what the client can do; nil adds nothing.
	Explain func(error) error
}

// Freshness is how fresh the local state must be.
type Freshness struct {
	MinIndex uint64
	Strong   bool
}
