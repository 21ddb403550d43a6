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

// Performed is what came of an operation.
type Performed struct {
	Status int    // of HTTP
	Body   []byte // the very JSON object that HTTP would answer
	// Refusal is the Error object that body holds; nil where there was no error.
	Refusal *Error
	// Index is that of the log entry that carries a write; 0 where there was none.
	Index uint64
}
