package wire

// Invocation is what an operation of the interface is given when it runs in
// memory: what the query, the path and the body of an HTTP request would hold.
type Invocation struct {
	Params   []Pair   // of the query
	ID       string   // the path parameter
	Document Document // the body
	EditKey  string   // of the header Authorization
	// Trial has the parameters validated and nothing done.
	Trial bool
}

// Performed is the result of an operation.
type Performed struct {
	Status int    // of HTTP
	Body   []byte // the very JSON object that HTTP would answer
	// Rejection is the Error object that Body holds; nil where there was no error.
	Rejection *Error
	// Index is that of the log entry that carries a write; 0 where there was none.
	Index uint64
}

// Performer runs operations of the interface for the client of a request.
type Performer interface {
	// Perform runs the operation of an operationId with all its rules, as HTTP would.
	// A trial returns nothing but what is wrong. It may be called from any goroutine
	// while the request is being answered.
	Perform(operation string, in Invocation) Performed
}

// Request is a request of HTTP as it is seen by a surface that runs operations. All but
// Body may be kept.
type Request interface {
	Performer
	// Header returns a header; "" when it is absent.
	Header(name string) string
	// Param returns a path parameter, unescaped.
	Param(name string) string
	// Query returns the parameters of the URL, or an *Error.
	Query() ([]Pair, error)
	// Body returns the body as it was sent.
	Body() []byte
	// BaseURL is the base of this service's addresses as the client sees them, without
	// a slash at the end.
	BaseURL() string
	// Sender is the pseudonym of the client's address.
	Sender() string
}

// Reply is the answer of a surface to a request of HTTP.
type Reply struct {
	// Status is that of HTTP; 0: the rejection is the answer, as an Error object.
	Status int
	Body   []byte // JSON; empty: none
	// Rejection is what headers are made of, such as when to try again; nil: none.
	Rejection *Error
	// Cause is a mistake of ours, to be logged; nil: none.
	Cause error
}
