package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"restyle/infer/batch"
	"restyle/infer/jsonform"
)

// An Error says why a request is not answered.
type Error struct {
	Status  int    // of HTTP
	Type    string // as OpenAI names it; Anthropic's follows from Status
	Code    string // such as context_length_exceeded; may be empty
	Param   string // the field that is wrong; may be empty
	Message string
	After   int  // seconds after which to try again, 0 for no advice
	Final   bool // trying again is useless although Status suggests it
}

func (e *Error) Error() string { return e.Message }

// refuse returns the error of a field that is wrong. The message starts with the field's name.
func refuse(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Param: param,
		Message: param + ": " + fmt.Sprintf(format, args...)}
}

func unavailable(code, message string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: "service_unavailable_error", Code: code, Message: message,
		After: 5}
}

func internal(message string) *Error {
	return &Error{Status: http.StatusInternalServerError, Type: "server_error", Message: message}
}

// tooLong returns the error for a prompt that leaves no room for an answer. Programs look for both wordings.
func tooLong(tokens, context int) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "context_length_exceeded",
		Param: "messages", Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your "+
			"messages resulted in %d tokens. Please reduce the length of the messages. (prompt is too long: %[2]d "+
			"tokens > %[3]d maximum)", context, tokens, context-1)}
}

// started returns the error of a request that a Generator did not take.
func started(err error) *Error {
	switch e := (*Error)(nil); {
	case errors.As(err, &e):
		return e
	case errors.Is(err, batch.ErrFull):
		return &Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "queue_full",
			Message: "The queue is full: try again later.", After: 1}
	case errors.Is(err, batch.ErrClosed):
		return draining
	case errors.Is(err, batch.ErrDropped):
		return &Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found", Param: "model",
			Message: "The model has just been dropped."}
	}
	return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: err.Error()}
}

var (
	loading  = unavailable("loading", "The models are being loaded: try again later.")
	draining = unavailable("draining", "The server is about to end, and takes no more requests.")
	costly   = &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "schema_too_costly",
		Message: jsonform.ErrCostly.Error()}
	timedOut = &Error{Status: http.StatusGatewayTimeout, Type: "server_error", Code: "timeout", Final: true,
		Message: "The answer took longer than this server allows for a request (--timeout)."}
)

// anthropicTypes are the types of errors in Anthropic's API.
var anthropicTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error",
	http.StatusInternalServerError: "api_error", http.StatusGatewayTimeout: "api_error",
}

// openAI returns the error in the form of OpenAI's API. param and code are null if there are none, as there. type and
// message are never empty, because programs that miss them tell their users about a missing field instead of the
// error.
func (e *Error) openAI() any {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return object{"error": object{"message": e.Message, "type": e.Type, "param": null(e.Param), "code": null(e.Code)}}
}

// anthropic returns the error in the form of Anthropic's API.
func (e *Error) anthropic() any {
	kind := anthropicTypes[e.Status]
	if kind == "" {
		kind = "invalid_request_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": e.Message}}
}

// write sends an error instead of an answer, in the form of the API that the path belongs to.
func (e *Error) write(w http.ResponseWriter, path string) {
	if e.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.After))
	}
	if e.Final {
		w.Header().Set("X-Should-Retry", "false") // which OpenAI's libraries obey
	}
	body := e.openAI()
	if strings.HasPrefix(path, "/v1/messages") {
		body = e.anthropic()
	}
	writeJSON(w, e.Status, body)
}

// An object is a JSON object whose keys are written in alphabetical order.
type object map[string]any

func writeJSON(w http.ResponseWriter, status int, body any) {
	data := encode(body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data) // an error means that the client has left
}

// encode returns JSON on one line, with a line break.
func encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // what is sent consists of numbers and texts
	}
	return []byte(b.String())
}
