package openai

import "fmt"

// RequestRefused means that the endpoint will not answer this request, whatever
// it does for others: it says so by a status of 400, 413, 422 or their like.
type RequestRefused struct {
	Endpoint string // base URL
	Status   int    // HTTP status; the one that it stands for when the refusal came inside a stream
	Reason   string // short and stable, such as "400"
	Message  string // what the endpoint said, without the key, 512 bytes at most
}

func (e *RequestRefused) Error() string {
	return fmt.Sprintf("%s refused the request (%s): %s", e.Endpoint, e.Reason, e.Message)
}

// Fatal means that the run cannot go on until a person changes something: a
// wrong key, model or URL, no credit left, a redirect elsewhere, a bad
// certificate. It is returned when the last endpoint has failed in such a way;
// while others are left, the endpoint is only retired, as [Stats] shows.
type Fatal struct {
	Endpoint string
	Status   int    // HTTP status, 0 if there was none
	Reason   string // short and stable, such as "401" or "redirect"
	Message  string // what happened and what to do, without the key
}

func (e *Fatal) Error() string { return fmt.Sprintf("%s: %s", e.Endpoint, e.Message) }

// Unavailable means that no answer could be had now: retries are used up, or no
// endpoint is alive. The same request may succeed later.
type Unavailable struct {
	Endpoint string // of the last failure; empty if none was tried
	Reason   string // of the last failure, such as "503" or "stall"
	Attempts int    // requests sent for this one
	Others   int    // requests that were answered while this one was tried
	AllDead  bool   // no endpoint has answered for Options.DeadTimeout
	Message  string // the last failure, without the key
}

func (e *Unavailable) Error() string {
	if e.AllDead {
		return fmt.Sprintf("no endpoint answers; the last failure: %s: %s", e.Endpoint, e.Message)
	}
	return fmt.Sprintf("gave up after %d sends; the last failure: %s: %s", e.Attempts, e.Endpoint, e.Message)
}
