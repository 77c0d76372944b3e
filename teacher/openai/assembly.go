package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// An assembly assembles the events of one answer. Anything that an answer does not need may be missing or of any
// type. The assembly refuses only events whose text may be incomplete or is not one answer.
type assembly struct {
	url                string
	id                 json.RawMessage // of the last event
	model              string
	text               joined
	first              joined   // the text of the choices with the index of the first one
	thoughts           int      // bytes
	finish             string   // one of finishReasons, or as it was sent
	prompt, completion int      // tokens
	refuses            bool     // some of the text is a refusal
	odd                []string // how the answer deviates from OpenAI's format

	events  int
	choices int
	unused  []byte // the last event without choices

	index   int  // of the first choice with text
	last    int  // the index of the last choice with text
	several bool // there are several answers, of which the one with that index is used
	deltas  bool // some text came as a delta: messages repeat it
	telling bool // some text or thoughts came without a finish reason: one marks the end
	alone   bool // the last finish reason came after the text, without more

	parts    int    // that make up the text
	lastPart []byte // of them
	grows    bool   // each of them starts with the one before it

	firstToken, latency time.Duration
}

// A completion is one event of a stream, or a whole answer that was not streamed. Servers differ in the types of
// fields: fields that matter are raw, and a wrong type in the others is ignored.
type completion struct {
	ID      json.RawMessage `json:"id"`
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Choices json.RawMessage `json:"choices"`
	Usage   usage           `json:"usage"`
	Groq    struct {
		Usage usage           `json:"usage"`
		Error json.RawMessage `json:"error"`
	} `json:"x_groq"`

	// Errors that are sent with status 200.
	Error    json.RawMessage `json:"error"`
	Errors   json.RawMessage `json:"errors"`
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"`
	Status   json.RawMessage `json:"status"`
	BaseResp struct {
		StatusCode json.RawMessage `json:"status_code"`
	} `json:"base_resp"` // MiniMax's
}

// isError reports whether an event states an error.
func (c *completion) isError() bool {
	return IsError(c.Error) || IsError(c.Errors) || IsError(c.Groq.Error) || numberOf(c.BaseResp.StatusCode) >= 400 ||
		c.Object == "error" || c.Type == "error" ||
		blank(c.Choices) && max(numberOf(c.Code), numberOf(c.Status)) >= 400
}

type choice struct {
	Index        json.RawMessage `json:"index"`
	Delta        json.RawMessage `json:"delta"`   // of a stream
	Message      json.RawMessage `json:"message"` // of an answer that was not streamed
	Text         json.RawMessage `json:"text"`    // of old servers, or once more
	FinishReason json.RawMessage `json:"finish_reason"`
	Usage        usage           `json:"usage"` // Moonshot's place for it
	Error        json.RawMessage `json:"error"` // OpenRouter's, of the provider
}

type content struct {
	Content          json.RawMessage `json:"content"` // a string, null, or a list of parts
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"` // other names of reasoning_content
	Thinking         json.RawMessage `json:"thinking"`
}

// ParseAnswer returns the answer in the body of a response, as a file of batch results has it: a whole answer, a
// stream, or either of them in a JSON string. The error says why there is none.
func ParseAnswer(body []byte) (Answer, error) {
	var inner string
	if json.Unmarshal(body, &inner) == nil {
		body = []byte(inner)
	}
	a, r := &assembly{}, newEventReader(bytes.NewReader(body))
	for {
		e, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Answer{}, fmt.Errorf("the answer is incomplete: %s", excerpt(body))
		}
		if f := a.add(e); f != nil {
			return Answer{}, f
		}
	}
	if a.finish == "" {
		return Answer{}, a.unfinished(r)
	}
	return a.answer(), nil
}

// answer returns the answer, once it is complete.
func (a *assembly) answer() Answer {
	text := a.text.String()
	if a.grows && !a.several && a.parts > 2 && len(a.lastPart) >= minRepeat {
		a.deviates("all of the text so far in every chunk")
		text = unquote(a.lastPart)
	}
	finish := a.finish
	if a.refuses && finish == "stop" {
		finish = Refusal
	}
	return Answer{
		Text:             text,
		Thoughts:         a.thoughts,
		FinishReason:     finish,
		Model:            a.model,
		PromptTokens:     a.prompt,
		CompletionTokens: a.completion,
		Latency:          a.latency,
		FirstToken:       a.firstToken,
		Deviations:       a.odd,
	}
}

// damaged returns the failure of an answer that another attempt may give undamaged.
func damaged(format string, args ...any) *failure {
	return &failure{kind: broken, damage: true, status: http.StatusOK, reason: "damaged answer",
		message: fmt.Sprintf(format, args...)}
}

// unreadable returns the failure of an answer in a form that another attempt would also have.
func unreadable(format string, args ...any) *failure {
	return &failure{kind: refused, status: http.StatusOK, reason: "unreadable answer",
		message: fmt.Sprintf(format, args...)}
}

// deviates records how the answer deviates from OpenAI's format.
func (a *assembly) deviates(how string) {
	if !slices.Contains(a.odd, how) {
		a.odd = append(a.odd, how)
	}
}

// written returns the bytes of text and thoughts so far.
func (a *assembly) written() int { return len(a.text.whole) + len(a.text.half) + a.thoughts }

// add adds one event.
func (a *assembly) add(e event) *failure {
	if e.isError {
		return a.stated(e.data)
	}
	list := []json.RawMessage{e.data}
	if e.data[0] == '[' && json.Unmarshal(e.data, &list) == nil {
		a.deviates("a list of events")
	}
	for _, data := range list {
		if f := a.addObject(data); f != nil {
			return f
		}
	}
	return nil
}

// stated returns the failure for an error that the server states. After the end, such an error loses nothing.
func (a *assembly) stated(data []byte) *failure {
	if a.sure() && a.finish == "stop" {
		a.deviates("an error after the end of the answer")
		return nil
	}
	return fromErrorObject(data, a.url, time.Now())
}

// addObject adds one event if it is an object. Anything else keeps the connection alive, such as null or ping.
func (a *assembly) addObject(data []byte) *failure {
	if data[0] != '{' {
		a.unused = data
		return nil
	}
	a.events++
	var c completion
	err := unmarshal(data, &c)
	if err != nil {
		err = unmarshal(WithoutNaN(data), &c)
	}
	if err != nil {
		return damaged("event %d of the answer: not a chat completion: %v: %s", a.events, err, excerpt(data))
	}
	if c.isError() {
		return a.stated(data)
	}
	if !isNull(c.Error) {
		a.deviates("an empty error beside the answer")
	}
	if !isNull(c.ID) && !isNull(a.id) && !bytes.Equal(c.ID, a.id) {
		a.deviates("more than one id")
	}
	a.id = c.ID
	if a.model == "" {
		a.model = c.Model
	}
	a.count(c.Usage)
	a.count(c.Groq.Usage)
	var choices []choice
	if unmarshal(c.Choices, &choices); len(choices) == 0 {
		a.unused = data
		if !blank(c.Choices) {
			return unreadable("event %d of the answer: its choices are not a list: %s", a.events, excerpt(c.Choices))
		}
	}
	if len(choices) > 1 {
		a.hasSeveral()
		slices.SortStableFunc(choices, func(x, y choice) int { return numberOf(x.Index) - numberOf(y.Index) })
		choices = choices[:1]
	}
	for _, choice := range choices {
		if f := a.choose(choice); f != nil {
			return f
		}
	}
	return nil
}

// count takes the number of tokens so far, which some servers report more than once.
func (a *assembly) count(u usage) {
	prompt, completion := u.tokens()
	a.prompt, a.completion = max(a.prompt, prompt), max(a.completion, completion)
}

// choose adds a choice, unless it belongs to another of several answers.
func (a *assembly) choose(c choice) *failure {
	a.choices++
	if IsError(c.Error) {
		return a.stated(c.Error)
	}
	a.count(c.Usage)
	reason, f := a.reason(c.FinishReason)
	if f != nil {
		return f
	}
	part, thoughts, f := a.part(c, reason != "")
	if f != nil {
		return f
	}
	index := numberOf(c.Index)
	if a.written() == 0 {
		a.index, a.last = index, index
	}
	after := a.finish != "" && (reason == "" || a.telling) // a finish reason that marked the end
	if len(part) > 0 && (index < a.last || index != a.index && a.last == a.index && after) {
		// A server that counts its chunks neither counts back nor continues after the finish reason of the first.
		a.hasSeveral()
	}
	if a.several && index != a.index {
		return nil
	}
	if index != 0 {
		a.deviates("choices with an index other than 0")
	}
	if after && strings.TrimSpace(unquote(part)) == "" {
		part = nil
	}
	if len(part) > 0 {
		if after {
			return damaged("the answer continues after its finish reason %q", excerpt([]byte(a.finish)))
		}
		a.last = index
		a.text.add(part)
		a.grows = a.parts == 0 || a.grows && bytes.HasPrefix(part, a.lastPart)
		a.parts, a.lastPart = a.parts+1, part
		if index == a.index && !a.several {
			a.first.add(part)
		}
	}
	a.thoughts += thoughts
	a.end(reason, len(part)+thoughts > 0)
	return nil
}

// hasSeveral records that the answer is one of several.
func (a *assembly) hasSeveral() {
	if !a.several {
		a.deviates("several choices (the first is used)")
		if a.last != a.index {
			a.finish = "" // it may be another answer's
		}
		a.several, a.text, a.last = true, a.first, a.index
	}
}

// end takes the finish reason of a choice, or "" for none. more means that the choice had text or thoughts.
func (a *assembly) end(reason string, more bool) {
	if reason == "" {
		a.telling = a.telling || more
		return
	}
	if a.finish != "" && more {
		a.deviates("a finish reason in every chunk")
	}
	if a.finish == "" || a.finish == "stop" { // any other is a reason not to trust the answer
		a.finish = reason
	}
	a.alone = !more && a.written() > 0
}

// sure reports whether the finish reason certainly marks the end, even if the connection breaks now. A server that
// sends one in every chunk has to end its answer in another way.
func (a *assembly) sure() bool { return a.finish != "" && (a.telling || a.alone) }

// part returns what a choice adds to the text, as the inside of a JSON string, and how many bytes of thoughts it has.
// ends means that the choice has a finish reason.
func (a *assembly) part(c choice, ends bool) (part []byte, thoughts int, f *failure) {
	for i, raw := range []json.RawMessage{c.Delta, c.Message, c.Text} {
		said, n, refuses, err := read(raw)
		a.refuses = a.refuses || refuses
		thoughts = max(thoughts, n)
		switch {
		case err != nil:
			return nil, 0, unreadable("event %d of the answer: %v", a.events, err)
		case len(said) == 0:
		case i == 0:
			a.deltas = true
			part = said
		case len(part) > 0:
			a.deviates("the text of a chunk twice")
		case !a.deltas:
			part = said
		case !a.repeats(said, false):
			return nil, 0, damaged("event %d of the answer: a message that differs from the text before it: %s", a.events,
				excerpt(said))
		}
	}
	if (ends || a.finish != "") && len(part) >= minRepeat && a.repeats(part, true) {
		part = nil
	}
	return part, thoughts, nil
}

// minRepeat is the minimum number of bytes of a chunk that is taken for a repetition of the whole answer, as some
// servers send it at the end, and not for more of the answer.
const minRepeat = 32

// repeats reports whether said is all of the text again. Unless it has to be exact, either may have thoughts before it.
func (a *assembly) repeats(said []byte, exact bool) bool {
	text, again := bytes.TrimSpace(a.text.whole), bytes.TrimSpace([]byte(unquote(said)))
	same := bytes.Equal(text, again)
	if !same && !exact && min(len(text), len(again)) >= minRepeat {
		same = bytes.HasSuffix(text, again) || bytes.HasSuffix(again, text)
	}
	if same {
		a.deviates("the whole answer again in the last chunk")
	}
	return same
}

// reason returns a finish reason in OpenAI's spelling if it has one, or "" for none.
func (a *assembly) reason(raw json.RawMessage) (string, *failure) {
	if isNull(raw) || raw[0] != '"' && blank(raw) {
		return "", nil
	}
	var sent string
	if json.Unmarshal(raw, &sent) != nil {
		sent = string(raw)
	}
	name := strings.ToLower(strings.TrimSpace(sent))
	name = strings.TrimPrefix(strings.NewReplacer("-", "_", " ", "_").Replace(name), "finish_reason_")
	reason := sent
	for known, spellings := range finishReasons {
		if slices.Contains(spellings, name) {
			reason = known
		}
	}
	if reason == failed {
		return "", &failure{kind: broken, status: http.StatusOK, reason: "error in answer",
			message: fmt.Sprintf("the endpoint ended the answer with the finish reason %q", excerpt([]byte(sent)))}
	}
	if reason != sent && sent != "" {
		a.deviates(fmt.Sprintf("finish reason %q for %s", excerpt([]byte(sent)), cmp.Or(reason, "none")))
	}
	return reason, nil
}

// failed is the finish reason of an answer that the server did not complete.
const failed = "error"

// finishReasons has the spellings of finish reasons, by OpenAI's spelling.
var finishReasons = map[string][]string{
	"": {"", "null", "none", "nil", "undefined", "unspecified", "in_progress"},
	"stop": {"stop", "stopped", "stop_sequence", "stop_string", "stop_str", "stop_token", "stop_word", "stop_words",
		"stop_eos", "eos", "eos_token", "eos_token_id", "eot", "eos_found", "end", "end_turn", "end_of_turn", "end_of_text",
		"end_of_sequence", "end_token", "endoftext", "</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end|>",
		"<end_of_turn>", "complete", "completed", "completion", "finish", "finished", "done", "success", "succeeded",
		"normal", "natural", "ok"},
	"length": {"length", "max_tokens", "max_token", "max_length", "max_new_tokens", "max_output_tokens",
		"max_completion_tokens", "max_tokens_reached", "max_tokens_exceeded", "maximum_length", "length_limit",
		"length_exceeded", "token_limit", "tokens_limit", "token_limit_reached", "error_limit", "user_length", "limit",
		"stop_limit", "model_length", "model_context_window_exceeded", "context_length", "context_length_exceeded",
		"context_window_exceeded", "truncated", "length_capped"},
	"content_filter": {"content_filter", "content_filtered", "contentfilter", "filtered", "filter", "safety",
		"image_safety", "recitation", "blocklist", "prohibited_content", "spii", "guardrail_intervened", "guardrails",
		"moderation", "sensitive", "refusal", "error_toxic", "toxicity"},
	failed: {"error", "abort", "aborted", "cancel", "cancelled", "canceled", "user_cancel", "network_error",
		"server_error", "internal_error", "insufficient_system_resource", "timeout", "time_limit", "failed", "failure"},
}

// unfinished returns the failure of a body that ended without a finish reason.
func (a *assembly) unfinished(r *eventReader) *failure {
	empty := &failure{kind: broken, status: http.StatusOK, reason: "damaged answer", message: "the answer is empty"}
	switch {
	case len(r.junk) > 0:
		empty.message = "not a chat completion: " + plainText(string(r.junk))
		empty.reason, empty.advice = notAnAnswer, "check the base URL"
		return empty
	case a.choices == 0 && len(a.unused) > 0:
		empty.message = "the answer has no choices: " + excerpt(a.unused)
		return empty
	case a.choices == 0:
		return empty
	}
	return &failure{kind: broken, damage: true, status: http.StatusOK, reason: "cut off",
		message: fmt.Sprintf("the stream ended after event %d without a finish reason, so the answer may be incomplete",
			a.events)}
}

// excerpt returns the beginning of received bytes as one line, for a message.
func excerpt(b []byte) string {
	short := strings.Join(strings.Fields(string(b[:min(len(b), 120)])), " ")
	if len(b) > 120 {
		return strings.ToValidUTF8(short, "") + "…"
	}
	return short
}
