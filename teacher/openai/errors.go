package openai

import (
	"fmt"
	"net/http"
)

// RequestRefused means that the endpoint will never answer this request, though it may
// answer others: it responded with a status such as 400, 413 or 422, or with status 200
// and an answer in a form that cannot be read.
type RequestRefused struct {
	Endpoint string // base URL
	Status   int    // HTTP status; for a refusal inside a stream, the corresponding one
	Reason   string // short and stable, such as "400"
	Message  string // the endpoint's message, without the key, at most 512 bytes
}

func (e *RequestRefused) Error() string {
	if e.Status == http.StatusOK {
		return fmt.Sprintf("%s: the answer cannot be read: %s", e.Endpoint, e.Message)
	}
	return fmt.Sprintf("%s refused the request (%s): %s", e.Endpoint, e.Reason, e.Message)
}

// Fatal means that no endpoint is usable until a person changes something: a wrong key,
// model or URL, no credit, a redirect to another host, a bad certificate. Complete
// returns it once the last endpoint has failed in this way. Until then, such an
// endpoint is only retired, as [Stats] shows.
type Fatal struct {
	Endpoint string
	Status   int    // HTTP status, 0 if there was none
	Reason   string // short and stable, such as "401" or "redirect"
	Message  string // what happened and what to do, without the key
}

func (e *Fatal) Error() string { return fmt.Sprintf("%s: %s", e.Endpoint, e.Message) }

// Unavailable means that there is no answer now: the retries are used up, or no endpoint
// is alive. The same request may succeed later.
type Unavailable struct {
	Endpoint string // of the last failure; empty if the request was never sent
	Reason   string // of the last failure, such as "503" or "stall"
	Attempts int    // how often the request was sent
	Others   int    // other requests that were answered meanwhile
	Damage   bool   // the endpoint answered every time, but never so that the answer is known to be complete
	AllDead  bool   // no endpoint has answered for Options.DeadTimeout
	Message  string // the last failure, without the key
}

func (e *Unavailable) Error() string {
	if e.AllDead {
		return fmt.Sprintf("no endpoint answers; the last failure: %s: %s", e.Endpoint, e.Message)
	}
	return fmt.Sprintf("gave up at attempt %d; the last failure: %s: %s", e.Attempts, e.Endpoint, e.Message)
}
