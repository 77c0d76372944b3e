package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestWait caps the wait that an endpoint may ask for. If a daily limit is used up, it is better to ask again now
// and then, and to give up in the end.
const longestWait = 5 * time.Minute

// maxErrorBody bounds how much of an error's body is read, maxMessage how much of its
// message is kept, both in bytes.
const (
	maxErrorBody = 64 << 10
	maxMessage   = 512
)

// notAnAnswer is the reason of a failure with a success status but no chat completion.
const notAnAnswer = "not an answer"

// A failureKind says what to do after a failure.
type failureKind int

const (
	broken      failureKind = iota // retry; uses up a retry
	throttled                      // retry later; uses up no retry
	unreachable                    // retry, as nothing was sent; uses up no retry
	refused                        // do not send this request again
	fatal                          // do not use this endpoint again
)

// A failure is an attempt without an answer.
type failure struct {
	kind     failureKind
	overload bool // fewer requests at once might have avoided it
	damage   bool // the answer came to its end, but may be incomplete
	status   int
	reason   string
	message  string        // what happened
	advice   string        // what to do about it
	wait     time.Duration // that the endpoint asked for
}

func (f *failure) Error() string { return f.message }

func (f *failure) fatal(url string) *Fatal {
	return &Fatal{Endpoint: url, Status: f.status, Reason: f.reason, Message: f.message}
}

// verdicts has the meanings of statuses. The meanings of others follow from their first digit.
var verdicts = map[int]struct {
	kind     failureKind
	overload bool
	advice   string
}{
	401: {fatal, false, "check the API key"},
	402: {fatal, false, "add credit to the account"},
	403: {fatal, false, "check that the API key may use this model here"},
	404: {fatal, false, ""}, // the advice depends on the URL
	405: {fatal, false, "check the base URL"},
	407: {fatal, false, "check the proxy settings"},
	408: {broken, false, ""},
	409: {broken, false, ""},
	410: {fatal, false, "check the base URL and the model"},
	425: {broken, false, ""},
	429: {throttled, true, ""},
	501: {fatal, false, "check the base URL"},
	503: {broken, true, ""},
	529: {broken, true, ""},
}

// fromStatus returns the failure for a response with a status other than 200. url is
// the base URL.
func fromStatus(status int, header http.Header, body []byte, url string, now time.Time) *failure {
	said := readError(body)
	f := &failure{status: status, reason: strconv.Itoa(status)}
	advice := ""
	verdict, listed := verdicts[status]
	switch {
	case listed:
		f.kind, f.overload, advice = verdict.kind, verdict.overload, verdict.advice
	case status >= 500:
		f.kind = broken
	case status >= 400:
		f.kind = refused
	default:
		f.kind, f.reason, advice = fatal, "redirect", "if you trust the new location with the key, set it as the base URL"
		if status < 300 {
			f.kind, f.reason, advice = broken, notAnAnswer, "check the base URL"
		}
	}
	switch {
	case status >= 400 && said.quota():
		f.kind = fatal
		f.overload = false
		f.reason = "quota"
		advice = "add credit to the account or use another key"
	case (status == 400 || status == 404) && said.model():
		f.kind, f.reason, advice = fatal, "model", "choose a model that the endpoint serves"
	case status == 400 && strings.Contains(said.message, "HTTP request") && strings.Contains(said.message, "HTTPS"):
		f.kind, f.reason, advice = fatal, "TLS wanted", "the base URL must start with https://"
	case status == 404 && !strings.HasSuffix(url, "/v1"):
		advice = "check the base URL: most end in /v1; try " + url + "/v1"
	case status == 404:
		advice = "check the base URL and the model"
	case status == 429 && strings.Contains(strings.ToLower(said.message), "request too large"):
		f.kind, f.overload = broken, false // waiting does not make it smaller
	}
	if f.kind == throttled || f.kind == broken {
		f.wait = askedWait(header, status == 429, now)
	}
	f.message = strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	if to := header.Get("Location"); to != "" {
		f.message += " to " + bareURL(to)
	}
	if said.message != "" {
		f.message += ": " + said.message
	}
	f.advice = advice
	return f
}

// fromErrorObject returns the failure for an error that came with status 200, by itself or in the middle of a stream.
func fromErrorObject(raw []byte, url string, now time.Time) *failure {
	said := readError(raw)
	status := said.status()
	if status == 0 {
		return &failure{kind: broken, status: http.StatusOK, reason: "error in answer",
			message: "error instead of an answer: " + said.message}
	}
	f := fromStatus(status, nil, raw, url, now)
	f.message = "error instead of an answer: " + f.message
	return f
}

// said is the content of an error's body, whatever its form.
type said struct{ message, kind, code string }

// quota reports whether the account has no credit left.
func (s said) quota() bool {
	for _, word := range []string{"insufficient_quota", "credit_balance", "billing_hard_limit", "billing_not_active"} {
		if strings.Contains(s.kind, word) || strings.Contains(s.code, word) {
			return true
		}
	}
	message := strings.ToLower(s.message)
	return strings.HasPrefix(message, "your credit balance") || strings.HasPrefix(message, "insufficient balance") ||
		strings.HasPrefix(message, "insufficient credits") || strings.HasPrefix(message, "insufficient_quota")
}

// model reports whether the endpoint does not have the model.
func (s said) model() bool {
	if s.code == "model_not_found" || s.code == "DeploymentNotFound" {
		return true
	}
	// Later parts of the message may quote the request.
	message := strings.ToLower(s.message[:min(len(s.message), 200)])
	return strings.Contains(message, "model") &&
		(strings.Contains(message, "not found") || strings.Contains(message, "does not exist") ||
			strings.Contains(message, "invalid model name"))
}

// status returns the HTTP status that corresponds to an error, or 0 if unknown.
func (s said) status() int {
	if n, err := strconv.Atoi(s.code); err == nil && n >= 400 && n < 600 {
		return n
	}
	for _, t := range []struct {
		words  string
		status int
	}{
		{"insufficient_quota", 429}, {"credit_balance", 429}, {"rate_limit", 429}, {"too_many_requests", 429},
		{"overloaded", 529},
		{"invalid_request", 400}, {"BadRequest", 400}, {"context_length", 400}, {"model_not_found", 404},
		{"authentication", 401}, {"invalid_api_key", 401}, {"permission", 403},
	} {
		if strings.Contains(s.kind, t.words) || strings.Contains(s.code, t.words) {
			return t.status
		}
	}
	return 0
}

// readError parses the body of an error: {"error":{…}}, {"error":"…"} (Ollama),
// {"detail":…} (FastAPI), {"object":"error","message":…} (old vLLM) or [{"error":…}]
// (Google); anything else is text.
func readError(body []byte) said {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return said{message: plainText(string(body))}
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	object, _ := v.(map[string]any)
	for _, name := range []string{"error", "detail"} {
		switch inner := object[name].(type) {
		case string:
			return said{message: plainText(inner), kind: text(object["type"]), code: text(object["code"])}
		case map[string]any:
			object = inner
		case []any:
			raw, _ := json.Marshal(inner)
			return said{message: plainText(string(raw))}
		}
	}
	s := said{kind: text(object["type"]), code: text(object["code"]), message: plainText(text(object["message"]))}
	if s.code == "" {
		s.code = text(object["status"])
	}
	if s.message == "" {
		s.message = plainText(string(body))
	}
	return s
}

// text returns a JSON string or number as a string, and "" for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// plainText returns s as one line, without tags if it is a web page.
func plainText(s string) string {
	if strings.HasPrefix(strings.TrimSpace(s), "<") {
		var b strings.Builder
		depth := 0
		for _, r := range s {
			switch {
			case r == '<':
				depth++
			case r == '>' && depth > 0:
				depth--
				b.WriteByte(' ')
			case depth == 0:
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}

// shorten truncates s to maxMessage bytes, between two characters.
func shorten(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-len("…")], "") + "…"
}

// askedWait returns how long the endpoint asks to wait, at most longestWait:
// Retry-After-Ms, or Retry-After in seconds or as a date, or, for limits, the
// x-ratelimit-reset headers.
func askedWait(h http.Header, limits bool, now time.Time) time.Duration {
	if ms, ok := number(h.Get("Retry-After-Ms")); ok {
		return capped(ms / 1000)
	}
	after := h.Get("Retry-After")
	if s, ok := number(after); ok {
		return capped(s)
	}
	if at, err := http.ParseTime(after); err == nil {
		// Relative to the endpoint's own clock, if the response has its time.
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}
		return capped(at.Sub(now).Seconds())
	}
	var wait time.Duration
	if limits {
		for _, name := range []string{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens", "X-Ratelimit-Reset"} {
			if d, err := time.ParseDuration(h.Get(name)); err == nil {
				wait = max(wait, capped(d.Seconds()))
			} else if s, ok := number(h.Get(name)); ok && s < 1e9 { // a larger number is a date, of unknown unit
				wait = max(wait, capped(s))
			}
		}
	}
	return wait
}

func number(s string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return n, err == nil && !math.IsNaN(n)
}

func capped(seconds float64) time.Duration {
	return time.Duration(max(0, min(seconds, longestWait.Seconds())) * float64(time.Second))
}

func mib(n int64) string { return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20)) }
