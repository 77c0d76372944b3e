package teacher

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"

	"restyle/teacher/openai"
)

// Remote is the teacher that asks a model on OpenAI-compatible servers, or by batch files.
type Remote struct {
	Pool        *openai.Pool // the servers; if nil, every request without an answer waits for a batch
	Model       string
	Temperature float64
	MaxTokens   int // per answer; doubled after a truncated one

	// Endpoints are the base URLs whose answers in the journal count: Pool's, and the ones that an earlier part of
	// the run asked.
	Endpoints []string
	Extra     map[string]any // more fields of the request's body

	// FoldSystem puts the system prompt at the beginning of the first user message, for models whose chat template
	// refuses the role.
	FoldSystem bool
}

// batchEndpoint is the endpoint of batch answers, in keys and records.
const batchEndpoint = "batch"

// Name returns the model's id.
func (t *Remote) Name() string { return t.Model }

// Request renders the prompt as the body of a chat completion.
func (t *Remote) Request(p *Prompt) Request {
	r := openai.Request{
		Model: t.Model, Messages: t.Messages(p), Temperature: t.Temperature, MaxTokens: t.MaxTokens,
		Seed: int64(p.Seed >> 33), // 31 bits, which every server accepts
		Stop: []string{stopSequence}, Extra: t.Extra,
	}
	if p.Longer {
		r.MaxTokens *= 2
		r.Extra = maps.Clone(t.Extra)
		for _, field := range []string{"max_tokens", "max_completion_tokens"} {
			if n, ok := r.Extra[field].(float64); ok {
				r.Extra[field] = 2 * n
			}
		}
	}
	if thinking(p.Previous) {
		r.Stop = nil // the tag in its thoughts ended the answer
	}
	return t.render(r)
}

// Messages returns the messages of the prompt as t sends them.
func (t *Remote) Messages(p *Prompt) []openai.Message { return t.fold(p.Messages()) }

// fold folds the system prompt into the user's message if FoldSystem is set. messages start with both roles, or with
// only the user's.
func (t *Remote) fold(messages []openai.Message) []openai.Message {
	if !t.FoldSystem || messages[0].Role != "system" {
		return messages
	}
	folded := slices.Clone(messages[1:])
	folded[0].Content = messages[0].Content + "\n\n" + folded[0].Content
	return folded
}

// render renders a request. If that fails, the result has no Body and the error as its key, with which Ask refuses it.
func (t *Remote) render(r openai.Request) Request {
	batch, err := r.Body(false)
	if err != nil {
		return Request{Keys: []string{err.Error()}}
	}
	live, err := r.Body(true)
	if err != nil {
		return Request{Keys: []string{err.Error()}}
	}
	req := Request{Body: live}
	if t.Pool == nil {
		req.Body = batch
	}
	for _, e := range t.Endpoints {
		req.Keys = append(req.Keys, openai.Key(e, live))
	}
	req.Keys = append(req.Keys, openai.Key(batchEndpoint, batch))
	return req
}

// Ask sends the request to one of the servers. Without a pool it returns ErrPending.
func (t *Remote) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	if r.Body == nil {
		return Answer{}, "", &Refused{Reason: r.Keys[0]}
	}
	if t.Pool == nil {
		return Answer{}, r.Keys[len(r.Keys)-1], ErrPending
	}
	complete := t.Pool.Complete
	if p.Attempt > 1 { // rows after this one may be waiting for it
		complete = t.Pool.CompleteFirst
	}
	a, err := complete(ctx, r.Body)
	runtime.Gosched() // let the request that got this one's slot be sent before this answer is checked
	var refused *openai.RequestRefused
	if errors.As(err, &refused) {
		return Answer{}, openai.Key(refused.Endpoint, r.Body), &Refused{refused.Error(), refused.Status}
	}
	if err != nil {
		return Answer{}, "", err
	}
	return Answer{
		Text: a.Text, Thoughts: a.Thoughts, Finish: a.FinishReason, Model: a.Model, Endpoint: a.Endpoint,
		PromptTokens: a.PromptTokens, CompletionTokens: a.CompletionTokens, Milliseconds: a.Latency.Milliseconds(),
	}, openai.Key(a.Endpoint, r.Body), nil
}
