package api

import (
	"errors"
	"strconv"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// toError turns what a backend or a view returned into an Error; nil when it is
// none that a client may see.
func toError(err error) *wire.Error {
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return refusal
	}
	if unavailable, ok := errors.AsType[*command.Unavailable](err); ok {
		return &wire.Error{Code: unavailable.Code, Message: "The service cannot do this right now: " + unavailable.Reason + "."}
	}
	if limited, ok := errors.AsType[*command.RateLimited](err); ok {
		refusal := &wire.Error{
			Code: wire.CodeRateLimited, Message: "Too many writes from this sender or this agent.",
			RetryAfter: limited.RetryAfter, Limit: limited.Limit,
		}
		field := fieldAgent.name
		if limited.Limit != nil {
			refusal.Message, field = limited.Limit.Message, limited.Limit.Field
		}
		unit := " seconds."
		if refusal.Wait() == "1" {
			unit = " second."
		}
		refusal.Message += " Wait " + refusal.Wait() + unit
		refusal.Issues = []wire.Issue{{field, "is over a limit, or its sender is"}}
		return refusal
	}
	return nil
}

// limitOfWrites names the limit of writes in headers.
const limitOfWrites = "writes"

// ratePolicy is the value of RateLimit-Policy for a limit and a window in seconds.
func ratePolicy(limit string, quota int, window string) string {
	return `"` + limit + `";q=` + strconv.Itoa(quota) + ";w=" + window
}

// minWriteWindow is the shortest window, in seconds, that RateLimit-Policy tells of
// writes.
const minWriteWindow = 60

// writePolicy is the value of RateLimit-Policy for writes at a rate a minute and a
// burst: as many as the burst are taken in any window, which is as long as they
// take to come back.
func writePolicy(perMinute, burst int) string {
	const minute = 60
	back := (minute*burst + perMinute - 1) / perMinute
	return ratePolicy(limitOfWrites, burst, strconv.Itoa(max(minWriteWindow, back)))
}
