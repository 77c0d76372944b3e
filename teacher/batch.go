package teacher

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	goopenai "github.com/sashabaranov/go-openai"

	"restyle/internal/secret"
	"restyle/teacher/openai"
)

// WriteBatchLine writes a request to a batch file, in the JSONL form of OpenAI's Batch API, which vllm run-batch and
// LiteLLM read too. The custom_id of the line is the key, under which the answer is looked up.
func WriteBatchLine(w io.Writer, key string, body []byte) error {
	line := struct {
		goopenai.BatchChatCompletionRequest
		Body json.RawMessage `json:"body"` // the exact bytes, which go-openai's type would change
	}{Body: body}
	line.CustomID, line.Method, line.URL = key, http.MethodPost, goopenai.BatchEndpointChatCompletions
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// Ingested counts the lines of a file of batch results.
type Ingested struct {
	Answers    int    `json:"answers"`    // recorded in the journal
	Known      int    `json:"known"`      // in the journal already, which keeps its answer
	Duplicates int    `json:"duplicates"` // further results of a request
	Failed     int    `json:"failed"`     // results that are errors; their requests remain unanswered
	Unreadable int    `json:"unreadable"` // lines that are not results, such as an incomplete one
	FirstError string `json:"first_error,omitempty"`
}

// IngestBatch reads a file of batch results and records the answers in the journal. The order of the lines does not
// matter, not even if a request has several answers. IngestBatch returns an error if no line is a result: then it is
// another file. Of an answer that contains the secret it keeps nothing; the finish reason is [openai.KeyInAnswer].
func IngestBatch(r io.Reader, j *Journal, secret secret.Secret) (Ingested, error) {
	answers, order, in, err := readResults(r, secret)
	if err != nil {
		return in, err
	}
	if len(order)+in.Failed == 0 {
		if in.FirstError == "" {
			in.FirstError = "the file is empty"
		}
		return in, fmt.Errorf("no line is a batch result (%s): give the file that the batch server wrote", in.FirstError)
	}
	for _, key := range order {
		if _, known := j.Find([]string{key}); known {
			in.Known++
			continue
		}
		in.Answers++
		if err := j.Add(AnswerRecord{Key: key, Row: -1, Answer: answers[key]}); err != nil {
			return in, err
		}
	}
	return in, nil
}

// readResults reads a file of batch results. It returns the answers by key, and the keys in the order of the file.
func readResults(
	r io.Reader, secret secret.Secret,
) (answers map[string]Answer, order []string, in Ingested, err error) {
	complain := func(n *int, line int, format string, args ...any) {
		if *n++; in.FirstError == "" {
			in.FirstError = fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)
		}
	}
	answers = map[string]Answer{}
	br := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		line, size, whole, err := readLine(br)
		if err != nil {
			return nil, nil, in, fmt.Errorf("batch results: line %d: %w", n, err)
		}
		if size == 0 {
			break
		}
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) > 0 || size > maxLine {
			key, a, failure, err := parseResult(line)
			if secret.In(a.Text + "\n" + a.Finish + "\n" + a.Model) {
				a = Answer{Finish: openai.KeyInAnswer, Endpoint: batchEndpoint}
			}
			had, twice := answers[key]
			switch {
			case err != nil:
				complain(&in.Unreadable, n, "%v", err)
			case failure != "":
				complain(&in.Failed, n, "%s", failure)
			case twice:
				in.Duplicates++
				if better(a, had) {
					answers[key] = a
				}
			default:
				answers[key] = a
				order = append(order, key)
			}
		}
		if !whole {
			break
		}
	}
	return answers, order, in, nil
}

// better reports whether a is preferred to b as the answer to one request: a complete one first, then the one that
// sorts first.
func better(a, b Answer) bool {
	if (a.Finish == "stop") != (b.Finish == "stop") {
		return a.Finish == "stop"
	}
	return a.Finish+"\n"+a.Text < b.Finish+"\n"+b.Text
}

// parseResult parses one line of results. It returns an answer, or the failure that the line reports; the error means
// that the line is neither.
func parseResult(line []byte) (key string, a Answer, failure string, err error) {
	var result struct {
		CustomID *string `json:"custom_id"`
		Response *struct {
			StatusCode int               `json:"status_code"`
			Body       openai.Completion `json:"body"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
	}
	if !utf8.Valid(line) {
		return "", a, "", fmt.Errorf("not a batch result: not valid UTF-8")
	}
	if err := json.Unmarshal(line, &result); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) { // its text names Go's types
			return "", a, "", fmt.Errorf("not a batch result: %s is a JSON %s", cmp.Or(kind.Field, "the line"), kind.Value)
		}
		return "", a, "", fmt.Errorf("not a batch result: %w", err)
	}
	if result.CustomID == nil || len(*result.CustomID) != 64 || strings.Trim(*result.CustomID, "0123456789abcdef") != "" {
		return "", a, "", fmt.Errorf("its custom_id is missing or is not one that gen wrote: is this the file of results?")
	}
	key = *result.CustomID
	text := func(raw json.RawMessage) string {
		s := string(bytes.TrimSpace(raw))
		if s == "null" {
			return ""
		}
		if len(s) > 300 {
			s = strings.ToValidUTF8(s[:300], "") + "…"
		}
		return s
	}
	switch r := result.Response; {
	case text(result.Error) != "":
		return key, a, text(result.Error), nil
	case r == nil:
		return key, a, "no response", nil
	case r.StatusCode == 400 || r.StatusCode == 413 || r.StatusCode == 422: // this request will never be answered
		return key, Answer{Finish: refusedFinish, Text: fmt.Sprintf("status %d %s", r.StatusCode, text(r.Body.Error)),
			Status: r.StatusCode, Endpoint: batchEndpoint}, "", nil
	case r.StatusCode != 200 && r.StatusCode != 0: // some versions of vllm run-batch omit it
		return key, a, fmt.Sprintf("status %d %s", r.StatusCode, text(r.Body.Error)), nil
	case text(r.Body.Error) != "":
		return key, a, text(r.Body.Error), nil
	case len(r.Body.Choices) == 0:
		return key, a, "no answer", nil
	case r.Body.Choices[0].FinishReason == "":
		return key, a, "no finish_reason: the answer may be incomplete", nil
	default:
		a = Answer{Finish: r.Body.Choices[0].FinishReason, Model: r.Body.Model, Endpoint: batchEndpoint}
		if message := r.Body.Choices[0].Message; message != nil {
			if a.Text, err = message.Text(); err != nil {
				return "", a, "", fmt.Errorf("not a batch result: %w", err)
			}
		}
		if usage := r.Body.Usage; usage != nil {
			a.PromptTokens, a.CompletionTokens = usage.PromptTokens, usage.CompletionTokens
		}
		return key, a, "", nil
	}
}
