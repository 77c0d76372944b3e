package teacher

import (
	"context"
	"errors"
	"maps"
	"runtime"

	"restyle/teacher/openai"
)

// Remote is a model behind one or several OpenAI-compatible servers, or behind a batch file.
type Remote struct {
	Pool        *openai.Pool // nil: nothing is sent, every request without an answer waits for a batch
	Model       string
	Temperature float64
	MaxTokens   int // of an answer; doubled where one was cut off

	// Endpoints are all the base URLs whose answers count: those of Pool, and those that an earlier part of the run asked.
	Endpoints []string
	Extra     map[string]any // further fields of the request's body
}

// batchEndpoint stands for whoever answers a batch file.
const batchEndpoint = "batch"

// Name returns the model's id.
func (t *Remote) Name() string { return t.Model }

// Request renders the prompt as the body of a chat completion.
func (t *Remote) Request(p *Prompt) Request {
	r := openai.Request{
		Model: t.Model, Temperature: t.Temperature, MaxTokens: t.MaxTokens,
		Seed: int64(p.Seed >> 33), // 31 bits: what every server takes
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
		r.Stop = nil // its thoughts named the tag, which ended them
	}
	for _, m := range p.Messages() {
		r.Messages = append(r.Messages, openai.Message(m))
	}
	return t.render(r)
}

// render makes the bytes of a request. One that cannot be rendered has no body, and Ask refuses it.
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

// Ask sends the request to one of the servers.
func (t *Remote) Ask(ctx context.Context, p *Prompt, r Request) (Answer, string, error) {
	if r.Body == nil {
		return Answer{}, "", &Refused{Reason: r.Keys[0]}
	}
	if t.Pool == nil {
		return Answer{}, r.Keys[len(r.Keys)-1], ErrPending
	}
	complete := t.Pool.Complete
	if p.Attempt > 1 { // rows after this one wait for it
		complete = t.Pool.CompleteFirst
	}
	a, err := complete(ctx, r.Body)
	runtime.Gosched() // the request that got this one's slot goes out before the answer is checked
	var refused *openai.RequestRefused
	if errors.As(err, &refused) {
		return Answer{}, openai.Key(refused.Endpoint, r.Body), &Refused{refused.Error(), refused.Status}
	}
	if err != nil {
		return Answer{}, "", err
	}
	return Answer{
		Text: a.Text, Finish: a.FinishReason, Model: a.Model, Endpoint: a.Endpoint,
		PromptTokens: a.PromptTokens, CompletionTokens: a.CompletionTokens, Milliseconds: a.Latency.Milliseconds(),
	}, openai.Key(a.Endpoint, r.Body), nil
}
