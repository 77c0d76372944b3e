package serve

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"restyle/chat"
	"restyle/chat/toolcalls"
	"restyle/infer/jsonform"
)

// constrain reads what limits the tokens of an answer, and the tools that it may call. o is nil if the answer
// continues a text, which calls none.
func (s *Server) constrain(b *body, q *question, o *chat.Options) {
	if b.err != nil {
		return
	}
	schema, field := b.format()
	if o != nil {
		b.tools(q, o)
	}
	if b.err != nil || schema == nil && q.tools.Choice != toolcalls.Required {
		return
	}
	var before, after string
	if len(q.tools.Tools) > 0 && q.tools.Choice != toolcalls.None {
		if schema != nil {
			b.fail(refuse(field, "not together with tools, unless tool_choice is none"))
			return
		}
		schema, field = q.tools.Schema(q.form), "tools"
		before, after = q.form.Around()
	}
	if q.options.IgnoreEnd {
		b.fail(refuse("ignore_eos", "not together with %s: JSON ends where it is complete", field))
		return
	}
	g, err := q.model.forms.grammar(schema, before, after)
	if err != nil {
		b.fail(refuse(field, "%v", err))
		return
	}
	q.grammar = g
}

// format reads the form of the answer, as chat completions or as responses have it. It returns a JSON schema, or nil
// for any text, and the field that has it.
func (b *body) format() (schema json.RawMessage, field string) {
	var f struct {
		Type       string
		JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
		Schema     json.RawMessage
	}
	var text struct {
		Format    json.RawMessage
		Verbosity string
	}
	switch {
	case b.read("response_format", &f):
		field = "response_format"
	case b.has("text") && json.Unmarshal(b.fields["text"], &text) == nil && text.Format != nil:
		if text.Verbosity != "" && text.Verbosity != "medium" {
			return nil, "" // which is refused as a field that has not been read
		}
		b.known["text"] = true
		field = "text"
		if err := json.Unmarshal(text.Format, &f); err != nil {
			b.fail(refuse(field, "must be an object, not %s", brief(text.Format)))
		}
		f.JSONSchema.Schema = f.Schema
	default:
		return nil, ""
	}
	switch f.Type {
	case "text":
	case "json_object":
		return json.RawMessage(`{"type": "object"}`), field
	case "json_schema":
		if len(f.JSONSchema.Schema) == 0 {
			b.fail(refuse(field, "it has no schema"))
		}
		return f.JSONSchema.Schema, field
	default:
		b.fail(refuse(field, "the type %.40q is not supported: use text, json_object or json_schema", f.Type))
	}
	return nil, field
}

// tools reads the tools, and which of them the answer calls.
func (b *body) tools(q *question, o *chat.Options) {
	b.known["tools"], b.known["tool_choice"] = true, true
	set, err := toolcalls.Read(toolcalls.Nested(b.fields["tools"], b.fields["tool_choice"]))
	if err != nil {
		b.fail(refuse("tools", "%v", err))
		return
	}
	if len(set.Tools) == 0 {
		return
	}
	if q.form, err = q.model.forms.calls(); err != nil {
		b.fail(refuse("tools", "%v", err))
		return
	}
	q.tools = set
	o.Tools = set.Text()
	parallel := true
	b.read("parallel_tool_calls", &parallel)
	var choice struct {
		One bool `json:"disable_parallel_tool_use"` // in Anthropic's API
	}
	_ = json.Unmarshal(b.fields["tool_choice"], &choice) // which toolcalls.Read has read
	q.oneCall = !parallel || choice.One
}

// forms is what a model needs to answer in a form: it is made when the first request asks for one.
type forms struct {
	calls      func() (toolcalls.Form, error)
	vocabulary func() (*jsonform.Vocabulary, error)

	lock  sync.Mutex // for what follows
	known map[[sha256.Size]byte]*list.Element
	order *list.List // of *known, the latest first
}

type known struct {
	key     [sha256.Size]byte
	grammar *jsonform.Grammar
}

// maxGrammars is how many grammars a model keeps. Each may take 10 MB, and makes the first answers after it slower.
const maxGrammars = 16

// newForms returns the forms of a model. base is the model whose weights it shares, or nil.
func newForms(m, base *Model) *forms {
	return &forms{
		calls: sync.OnceValues(func() (toolcalls.Form, error) { return toolcalls.FormOf(m.Codec.Template) }),
		vocabulary: sync.OnceValues(func() (*jsonform.Vocabulary, error) {
			if base != nil {
				if v, err := base.forms.vocabulary(); err == nil && v.IsOf(m.Codec.Tokenizer, m.Codec.Ends) {
					return v, nil
				}
			}
			return jsonform.NewVocabulary(m.Codec.Tokenizer, m.Codec.Ends)
		}),
		known: map[[sha256.Size]byte]*list.Element{}, order: list.New(),
	}
}

// grammar returns the grammar of a schema with texts around it.
func (f *forms) grammar(schema []byte, before, after string) (*jsonform.Grammar, error) {
	v, err := f.vocabulary()
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(encode([]string{string(schema), before, after}))
	if g := f.look(key); g != nil {
		return g, nil
	}
	g, err := jsonform.Compile(schema, v, v.Around(before, after))
	if err != nil {
		return nil, err
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.known[key] = f.order.PushFront(&known{key, g})
	if f.order.Len() > maxGrammars {
		oldest := f.order.Remove(f.order.Back()).(*known)
		delete(f.known, oldest.key)
	}
	return g, nil
}

func (f *forms) look(key [sha256.Size]byte) *jsonform.Grammar {
	f.lock.Lock()
	defer f.lock.Unlock()
	e := f.known[key]
	if e == nil {
		return nil
	}
	f.order.MoveToFront(e)
	return e.Value.(*known).grammar
}
