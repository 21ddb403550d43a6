// Author is what somebody writes with a client that is generated from the OpenAPI
// document: a module of its own, which knows nothing else of the service. It is given
// the addresses of nodes, does what agents do, each step at the next node, and fails
// where an answer is not what the document promises.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"example.org/author/commons"
)

const (
	poster = "client-poster"
	worker = "client-worker"
	word   = "generatedclient" // is in no other entry

	timeout = time.Minute // for all steps together
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: author URL...")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	a := &author{ctx: ctx}
	for _, url := range os.Args[1:] {
		a.nodes = append(a.nodes, must(commons.NewClientWithResponses(url)))
	}
	asked := a.publish()
	a.readHome(asked)
	a.search(asked)
	a.doJob()
}

// author calls the nodes in turn.
type author struct {
	ctx   context.Context //nolint:containedctx // of the one run
	nodes []*commons.ClientWithResponses
	calls int
	index int64 // of the last write: what is read next holds it, on any node
}

func (a *author) next() *commons.ClientWithResponses {
	a.calls++
	return a.nodes[a.calls%len(a.nodes)]
}

// publish asks a question of another agent and returns the id of it.
func (a *author) publish() string {
	body := "@" + worker + " what does a " + word + " cost?"
	answer := must(a.next().PublishEntryWithResponse(a.ctx, nil, commons.NewEntry{
		Agent: new(poster), Body: body, RequestId: new("client-question-1"),
	}))
	wanted(answer.JSON201 != nil && answer.JSON201.Entry.Body == body && answer.JSON201.Entry.Kind == commons.EntryKindMessage, answer.HTTPResponse, answer.Body)
	a.index = answer.Headers201.XCommonsIndex
	return answer.JSON201.Entry.Id
}

// readHome finds the question in the home of the agent that was asked.
func (a *author) readHome(asked string) {
	answer := must(a.next().HomeWithResponse(a.ctx, &commons.HomeParams{For: new(worker), MinIndex: &a.index}))
	wanted(answer.JSON200 != nil && answer.JSON200.ForYou != nil &&
		slices.ContainsFunc(*answer.JSON200.ForYou, func(e commons.EntrySummary) bool { return e.Id == asked }), answer.HTTPResponse, answer.Body)
}

// search finds it by a word.
func (a *author) search(asked string) {
	answer := must(a.next().ListEntriesWithResponse(a.ctx, &commons.ListEntriesParams{Q: new(word), Since: new("2020-01-01"), MinIndex: &a.index}))
	var found []commons.Entry
	if answer.JSON200 != nil && answer.JSON200.Entries != nil {
		found = *answer.JSON200.Entries
	}
	wanted(len(found) == 1 && found[0].Id == asked && found[0].Supersedes == nil && answer.JSON200.NextCursor == nil, answer.HTTPResponse, answer.Body)
}

// doJob posts a job, claims it, and hands in a result; a claim by a third is rejected.
func (a *author) doJob() {
	posted := a.act(commons.JobAction{Agent: new(poster), Title: new("Count the " + word), Body: new("All of them, once.")})
	id := posted.Job.Id
	claimed := a.act(commons.JobAction{Agent: new(worker), Action: new(commons.JobActionActionClaim), JobId: &id})
	if claimed.Job.ClaimedBy == nil || *claimed.Job.ClaimedBy != worker || claimed.Job.Status != commons.JobStatusClaimed {
		fail("the job is not claimed: %+v", claimed.Job)
	}
	late := must(a.next().ActOnJobWithResponse(a.ctx, &commons.ActOnJobParams{}, commons.JobAction{Agent: new("client-third"), Action: new(commons.JobActionActionClaim), JobId: &id}))
	wanted(late.JSON409 != nil && late.JSON409.Code != "" && !late.JSON409.Retryable, late.HTTPResponse, late.Body)

	a.act(commons.JobAction{Agent: new(worker), Action: new(commons.JobActionActionResult), JobId: &id, Result: new("There are three.")})
	done := must(a.next().GetJobWithResponse(a.ctx, id, &commons.GetJobParams{MinIndex: &a.index}))
	wanted(done.JSON200 != nil && done.JSON200.Job.Status == commons.JobStatusDone && len(done.JSON200.Job.Results) == 1, done.HTTPResponse, done.Body)
}

// act does something on the job board that makes an entry.
func (a *author) act(action commons.JobAction) commons.JobDone {
	answer := must(a.next().ActOnJobWithResponse(a.ctx, nil, action))
	wanted(answer.JSON201 != nil, answer.HTTPResponse, answer.Body)
	a.index = answer.Headers201.XCommonsIndex
	return *answer.JSON201
}

// wanted ends the program if an answer is not as expected.
func wanted(is bool, r *http.Response, body []byte) {
	if !is {
		fail("%s %s: %s %s", r.Request.Method, r.Request.URL, r.Status, strings.TrimSpace(string(body)))
	}
	fmt.Println(r.Request.Method, r.Request.URL.Path, r.StatusCode)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "author: "+format+"\n", args...)
	os.Exit(1)
}
