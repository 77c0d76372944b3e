package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A body is the JSON object of a request. After the first error, reading does nothing.
type body struct {
	fields  map[string]json.RawMessage
	known   map[string]bool // the fields that were asked for
	ignored []string        // see rest
	err     *Error
}

// readBody reads the body of a request, of up to most bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (*body, *Error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Type: "invalid_request_error",
			Message: "Content-Encoding: send the body as it is, not packed."}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error",
			Code: "request_too_large", Message: fmt.Sprintf("The body has more than %d bytes.", most)}
	}
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Type: "invalid_request_error",
			Message: "The body did not arrive as a whole."}
	}
	return parseBody(data)
}

func parseBody(data []byte) (*body, *Error) {
	wrong := func(what string) *Error {
		return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: what}
	}
	if !utf8.Valid(data) {
		return nil, wrong("The body is not UTF-8.")
	}
	b := &body{known: map[string]bool{}}
	if err := json.Unmarshal(data, &b.fields); err != nil || b.fields == nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, wrong(fmt.Sprintf("The body is not JSON: %v, at byte %d.", err, syntax.Offset))
		}
		return nil, wrong(`The body must be a JSON object, such as {"model": "…"}.`)
	}
	return b, nil
}

// fail keeps an error, if it is the first.
func (b *body) fail(e *Error) {
	if b.err == nil {
		b.err = e
	}
}

// read reads a field into what a pointer points to, and reports whether it is there and not null.
func (b *body) read(name string, into any) bool {
	b.known[name] = true
	raw, there := b.fields[name]
	if b.err != nil || !there || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		var must string
		switch into.(type) {
		case *bool:
			must = "true or false"
		case *int, *int64:
			must = "a whole number of at most 64 bits"
		case *float64:
			must = "a number"
		case *string:
			must = "a text"
		case *[]string:
			must = "a list of texts"
		case *[]json.RawMessage:
			must = "a list"
		default:
			must = "an object"
		}
		b.fail(refuse(name, "must be %s, not %s", must, brief(raw)))
		return false
	}
	return true
}

// number reads a number that is from least to most, and reports whether it is there.
func number[N int | int64 | float64](b *body, name string, into *N, least, most N) bool {
	if !b.read(name, into) {
		return false
	}
	if v := *into; !(v >= least && v <= most) {
		b.fail(refuse(name, "must be from %v to %v, not %v", least, most, v))
	}
	return true
}

// texts reads a text or a list of texts.
func (b *body) texts(name string) (all []string) {
	if raw := b.fields[name]; len(raw) > 0 && raw[0] == '"' {
		all = make([]string, 1)
		b.read(name, &all[0])
		return all
	}
	b.read(name, &all)
	return all
}

// brief returns the start of a value for a message.
func brief(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "…"
}

// A refusal is a field that changes the answer in a way that the server does not know.
type refusal struct {
	neutral []string // values that change nothing, besides the values in nothing, as plain returns them
	advice  string   // what to do instead; empty: leave it out
}

// nothing are the values with which any field changes nothing, besides null.
var nothing = []string{"[]", "{}", "false", `""`}

// refusals are fields with a neutral value or advice that no API of this server supports. What an API supports is
// read before, and not looked up here.
var refusals = map[string]refusal{
	"add_generation_prompt": {[]string{"true"}, "see continue_final_message"},
	"background":            {nil, "wait for the answer"},
	"best_of":               {[]string{"1"}, "use n"},
	"chat_template":         {nil, "the server has the template: see serve --template"},
	"conversation":          {nil, "send the whole conversation: the server keeps none"},
	"documents":             {nil, "put them into a message"},
	"dry_multiplier":        {[]string{"0"}, ""},
	"dynatemp_range":        {[]string{"0"}, ""},
	"frequency_penalty":     {[]string{"0"}, "use repetition_penalty"},
	"function_call":         {[]string{`"none"`, `"auto"`}, ""},
	"include":               {[]string{`["reasoning.encrypted_content"]`}, ""},
	"length_penalty":        {[]string{"1"}, ""},
	"min_tokens":            {[]string{"0"}, ""},
	"mirostat":              {[]string{"0"}, ""},
	"modalities":            {[]string{`["text"]`}, "there is only text"},
	"presence_penalty":      {[]string{"0"}, "use repetition_penalty"},
	"previous_response_id":  {nil, "send the whole conversation: the server keeps none"},
	"prompt_logprobs":       {[]string{"0"}, ""},
	"reasoning_effort":      {[]string{`"none"`}, "if the template has a variable for it, use chat_template_kwargs"},
	"repeat_penalty":        {[]string{"1"}, "use repetition_penalty"},
	"skip_special_tokens":   {[]string{"true"}, ""},
	"stop_token_ids":        {nil, "use stop"},
	"text":                  {[]string{`{"format":{"type":"text"}}`}, ""},
	"tfs_z":                 {[]string{"1"}, ""},
	"thinking":              {[]string{`{"type":"disabled"}`, `{"type":"adaptive"}`}, "models think as they like"},
	"tool_choice":           {[]string{`"none"`, `"auto"`, `{"type":"none"}`, `{"type":"auto"}`}, ""},
	"top_logprobs":          {[]string{"0"}, ""},
	"truncation":            {[]string{`"disabled"`}, "send less"},
	"typical_p":             {[]string{"1"}, ""},
	"verbosity":             {[]string{`"medium"`}, "ask for it in a message"},
	"xtc_probability":       {[]string{"0"}, ""},
}

// unsupported are the other fields that no API of this server supports.
var unsupported = strings.Fields(`audio chat_template_kwargs container context_management continue_final_message echo
	functions grammar guided_choice guided_grammar guided_json guided_regex include_stop_str_in_output json_schema
	logit_bias mcp_servers output_config output_format prompt prompt_embeds reasoning structured_outputs suffix tools
	truncate_prompt_tokens use_beam_search web_search_options`)

// harmless are fields that change no answer here.
var harmless = strings.Fields(`cache_prompt cache_salt id_slot inference_geo max_tool_calls metadata parallel_tool_calls
	prediction priority prompt_cache_key prompt_cache_retention request_id return_progress safety_identifier service_tier
	store stream_options timings_per_token user`)

// rest checks the fields that have not been read: it refuses the ones in refusals and unsupported whose values
// are not neutral, and keeps the names of others that are not harmless in ignored.
func (b *body) rest() {
	for _, name := range slices.Sorted(maps.Keys(b.fields)) {
		raw := b.fields[name]
		if b.known[name] || string(raw) == "null" || slices.Contains(harmless, name) {
			continue
		}
		not, is := refusals[name]
		value := plain(raw)
		switch {
		case !is && !slices.Contains(unsupported, name):
			b.ignored = append(b.ignored, name)
		case !slices.Contains(nothing, value) && !slices.Contains(not.neutral, value):
			b.fail(&Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "unsupported_parameter",
				Param: name, Message: fmt.Sprintf("%s: this server does not support %s: %s", name, brief(raw),
					cmp.Or(not.advice, "leave it out"))})
		}
	}
}

// plain returns a JSON value in one spelling: without spaces, keys sorted, 1 for 1.0.
func plain(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	return string(bytes.TrimSpace(encode(v)))
}

// ignoredHeader returns the names of ignored fields for a header.
func (b *body) ignoredHeader() string {
	const most = 10
	var names []string
	for _, name := range b.ignored[:min(len(b.ignored), most)] {
		quoted := strconv.QuoteToASCII(brief([]byte(name)))
		names = append(names, quoted[1:len(quoted)-1])
	}
	if more := len(b.ignored) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
