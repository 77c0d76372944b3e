package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// An assembly assembles the events of one answer. It refuses events that cannot
// belong to one undamaged answer.
type assembly struct {
	url     string
	id      string
	model   string
	text    strings.Builder
	written int // bytes of text and reasoning
	finish  string
	usage   Usage
	events  int
	choices int

	firstToken, latency time.Duration
}

// A Completion is one event of a stream, or a whole answer that was not streamed. It has only the fields that are read:
// go-openai's type would refuse an answer because of the type of any other field, such as a date with a fraction or a
// sum of tokens in quotes.
type Completion struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Choices []Choice        `json:"choices"`
	Usage   *Usage          `json:"usage"`
	Error   json.RawMessage `json:"error"` // sent with status 200
}

// Choice is the text of a [Completion].
type Choice struct {
	Index        int      `json:"index"`
	Delta        *Content `json:"delta"`   // of a stream
	Message      *Content `json:"message"` // of an answer that was not streamed
	FinishReason string   `json:"finish_reason"`
}

// Content is what a [Choice] adds to the answer.
type Content struct {
	Content          json.RawMessage `json:"content"` // a string, null, or a list of parts
	Refusal          string          `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"` // another name of reasoning_content
}

// Usage is the number of tokens of a request and its answer.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// damaged returns the failure of a damaged stream.
func damaged(format string, args ...any) *failure {
	return &failure{kind: broken, status: http.StatusOK, reason: "damaged answer", message: fmt.Sprintf(format, args...)}
}

// add adds one event.
func (a *assembly) add(event []byte) *failure {
	a.events++
	var c Completion
	if err := json.Unmarshal(event, &c); err != nil {
		return damaged("event %d of the answer: not a chat completion: %v: %s", a.events, err, excerpt(event))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || c.Object == "error" {
		return fromErrorObject(event, a.url, time.Now())
	}
	switch {
	case c.ID == "" || c.ID == a.id:
	case a.id == "":
		a.id = c.ID
	default:
		return damaged("two answers in one stream: %s and %s", excerpt([]byte(a.id)), excerpt([]byte(c.ID)))
	}
	if a.model == "" {
		a.model = c.Model
	}
	if c.Usage != nil && c.Usage.PromptTokens >= 0 && c.Usage.CompletionTokens >= 0 {
		a.usage = *c.Usage
	}
	if len(c.Choices) > 1 {
		return damaged("%d choices where one was asked for", len(c.Choices))
	}
	for _, choice := range c.Choices {
		a.choices++
		if choice.Index != 0 {
			return damaged("choice %d where only one was asked for", choice.Index)
		}
		text := ""
		for _, content := range []*Content{choice.Delta, choice.Message} {
			if content == nil {
				continue
			}
			s, err := content.Text()
			if err != nil {
				return damaged("event %d of the answer: %v", a.events, err)
			}
			text += s
			a.written += len(s) + len(content.ReasoningContent)
			if content.ReasoningContent == "" && len(content.Reasoning) > 0 && content.Reasoning[0] == '"' {
				a.written += len(content.Reasoning) - len(`""`)
			}
		}
		reason := choice.FinishReason
		if a.finish != "" {
			// Some servers repeat the reason with the usage.
			if text != "" || reason != "" && (reason != a.finish || c.Usage == nil) {
				return damaged("the answer continues after its finish reason %q", excerpt([]byte(a.finish)))
			}
			continue
		}
		a.text.WriteString(text)
		switch reason {
		case "error", "abort":
			return &failure{kind: broken, status: http.StatusOK, reason: "error in answer",
				message: "the endpoint ended the answer with an error"}
		}
		a.finish = reason
	}
	return nil
}

// Text returns the content: a string, or the parts of type text joined. If the content is null or absent it is the
// refusal, which is an answer too, for the caller to judge.
func (c *Content) Text() (string, error) {
	content := bytes.TrimSpace(c.Content)
	switch {
	case len(content) == 0 || string(content) == "null":
		return c.Refusal, nil
	case content[0] == '"':
		var s string
		err := json.Unmarshal(content, &s)
		return s, err
	case content[0] == '[':
		var parts []struct{ Type, Text string }
		if err := json.Unmarshal(content, &parts); err != nil {
			return "", err
		}
		var b strings.Builder
		for _, p := range parts {
			if p.Type == "text" {
				b.WriteString(p.Text)
			}
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("content: neither text nor a list of parts: %s", excerpt(content))
}

// unfinished returns the failure of a body that ended without a finish reason.
func (a *assembly) unfinished(r *eventReader) *failure {
	switch {
	case len(r.junk) > 0:
		f := damaged("not a chat completion: %s", plainText(string(r.junk)))
		f.reason, f.advice = notAnAnswer, "check the base URL"
		return f
	case a.events == 0:
		return damaged("the answer is empty")
	case a.choices == 0:
		return damaged("the answer has no choices")
	}
	return &failure{kind: broken, status: http.StatusOK, reason: "cut off",
		message: fmt.Sprintf("the stream ended after event %d without a finish reason", a.events)}
}

// excerpt returns the beginning of received bytes, for a message.
func excerpt(b []byte) string {
	if len(b) > 120 {
		return strings.ToValidUTF8(string(b[:120]), "") + "…"
	}
	return string(b)
}
