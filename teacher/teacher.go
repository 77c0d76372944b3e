// Package teacher rewrites the answers of a dataset in a voice, with the code kept as it was.
//
// [Run] is the whole of it: it takes rows from a source in order, asks a [Teacher] for prose around the code
// (prompt.go, splice.go), refuses what fails a check (check.go) or says again what the set has said too often
// (ledger.go), and hands the accepted rows on with a certificate (decide.go). Every answer goes through the journal
// (journal.go), so that a run can be killed at any moment and run again.
//
// There are two teachers: [Remote] asks OpenAI-compatible servers (package teacher/openai), [Builtin] composes prose
// from the style's phrase bank and needs no model. They are asked in the same way and judged by the same checks.
package teacher

import (
	"context"
	"errors"
	"regexp"
	"slices"
)

// A Teacher answers prompts. It is safe for concurrent use.
type Teacher interface {
	// Name is what the certificates call it: "builtin", or the id of a model.
	Name() string

	// Request is what the prompt becomes.
	Request(p *Prompt) Request

	// Ask has a request answered and returns the key under which the answer belongs. The error is ErrPending if the
	// answer will come by another way, a *Refused if this request will never be answered, and else ends the run.
	Ask(ctx context.Context, p *Prompt, r Request) (a Answer, key string, err error)
}

// A Request is a prompt as it is sent.
type Request struct {
	Body []byte   // the exact bytes: of a remote teacher, what goes on the wire
	Keys []string // the journal's keys for an answer, one for each place that might give it
}

// Answer is what a teacher said.
type Answer struct {
	Text             string `json:"text"`
	Finish           string `json:"finish"` // "stop", "length", "content_filter", … or "refused", with the reason as Text
	Model            string `json:"model,omitempty"`
	Endpoint         string `json:"endpoint,omitempty"`
	PromptTokens     int    `json:"prompt_tokens,omitempty"`
	CompletionTokens int    `json:"completion_tokens,omitempty"`
	Milliseconds     int64  `json:"ms,omitempty"`
	Status           int    `json:"status,omitempty"` // of a refusal: what the teacher said of the request, as an HTTP status
}

// A refusal that an earlier version wrote has its status in its text, if it has one. That version also took it for a
// refusal that a server was out of order for a while.
var statedRefusal = regexp.MustCompile(`^(?:\S+ refused the request \(|status )(4\d\d)\b`)

// stands tells whether a is what the teacher says of the request, and not what befell it on its way.
func (a Answer) stands() bool {
	if a.Finish != refusedFinish || a.Status != 0 {
		return true
	}
	m := statedRefusal.FindStringSubmatch(a.Text)
	return m != nil && !slices.Contains([]string{"401", "403", "408", "429"}, m[1])
}

// Refused is the error for a request that the teacher rejects for what it is: the row fails and the run goes on.
type Refused struct {
	Reason string
	Status int // HTTP status by which a server said so; 0 if the request could not even be made
}

func (e *Refused) Error() string { return e.Reason }

// ErrPending means that no answer is there yet and none will come while this run lasts: the requests are collected for
// a batch.
var ErrPending = errors.New("the answer is not there yet")
