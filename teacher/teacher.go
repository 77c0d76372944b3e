// Package teacher rewrites the answers of a dataset in a voice and keeps their code byte for byte.
//
// A [Run] makes a dataset. It reads rows from a source in order, asks a [Teacher] for prose around each row's code,
// and refuses a rewrite that fails a check or repeats what too many rows already say. It emits the accepted rows with
// their certificates. Every answer goes through a [Journal], so that a run can be killed at any moment and resumed.
//
// There are two teachers: [Remote] asks OpenAI-compatible servers (package teacher/openai); [Builtin] composes prose
// from the style's phrase bank and needs no model. Both get the same prompts, and the same checks apply to both.
//
// A row goes through these files in this order:
//
//	decide.go  reads the source, and decides rows in order
//	check.go   checks the source row; later, the rewrite, with sense.go, and kept.go if it is prose
//	assign.go  assigns the row an opener, a device, a length and examples
//	answer.go  asks the teacher, up to twice
//	prompt.go  the prompt, and the rewrite within the answer
//	splice.go  takes code out of an answer, and puts it back
//	ledger.go  keeps the dataset varied
package teacher

import (
	"context"
	"errors"
)

// A Teacher answers prompts. Its methods may be called concurrently.
type Teacher interface {
	// Name returns the teacher's name in certificates: "builtin", or the id of a model.
	Name() string

	// Request renders a prompt.
	Request(p *Prompt) Request

	// Ask answers a request and returns the journal's key of the answer. The error is ErrPending if the answer will come
	// from a batch, and a *Refused if the teacher will never answer this request; any other error ends the run.
	Ask(ctx context.Context, p *Prompt, r Request) (a Answer, key string, err error)
}

// A Request is a rendered prompt.
type Request struct {
	Body []byte   // the exact bytes; for a Remote, the bytes that it sends
	Keys []string // the journal's keys of an answer, one for each endpoint that might give it
}

// An Answer is a teacher's answer.
type Answer struct {
	Text     string `json:"text"`
	Thoughts int    `json:"thoughts,omitempty"` // bytes of reasoning that came apart from the text

	// Finish is the finish reason: "stop", "length", "content_filter" and so on; or "refused", with the reason as Text.
	Finish string `json:"finish"`

	Model            string `json:"model,omitempty"`
	Endpoint         string `json:"endpoint,omitempty"`
	PromptTokens     int    `json:"prompt_tokens,omitempty"`
	CompletionTokens int    `json:"completion_tokens,omitempty"`
	Milliseconds     int64  `json:"ms,omitempty"`
	Status           int    `json:"status,omitempty"` // HTTP status of a refusal
}

// stands reports whether a is the teacher's answer, or a refusal with its status. Without one, the request never
// reached the teacher.
func (a Answer) stands() bool { return a.Finish != refusedFinish || a.Status != 0 }

// Refused is the error for a request that the teacher will never answer. The row fails, and the run continues.
type Refused struct {
	Reason string
	Status int // HTTP status of the refusal; 0 if the request could not be made
}

func (e *Refused) Error() string { return e.Reason }

// ErrPending means that the answer has to come from a batch, for which the run collects its requests.
var ErrPending = errors.New("the answer has to come from a batch")
