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

// Ingested is what was found in a file of batch results.
type Ingested struct {
	Answers    int    `json:"answers"`    // taken
	Known      int    `json:"known"`      // answered before; the earlier answer stands
	Duplicates int    `json:"duplicates"` // further results for the same request
	Failed     int    `json:"failed"`     // results that are errors; their requests stay open
	Unreadable int    `json:"unreadable"` // lines that are not results, such as one cut short
	FirstError string `json:"first_error,omitempty"`
}

// IngestBatch takes the answers out of a file of batch results, whatever their order, and enters them in the journal.
// A file in which no line is a result is an error: it is another file.
//
// Of several answers to one request it takes the same one whatever their order is.
//
// Of an answer that has the secret in it, nothing is kept but openai.KeyInAnswer as its finish reason.
func IngestBatch(r io.Reader, j *Journal, secret secret.Secret) (Ingested, error) {
	answers, order, in, err := readResults(r, secret)
	if err != nil {
		return in, err
	}
	if len(order)+in.Failed == 0 {
		if in.FirstError == "" {
			in.FirstError = "it is empty"
		}
		return in, fmt.Errorf("no line of it is a batch result (%s): give the file in which the batch server wrote its answers", in.FirstError)
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

// readResults reads a file of batch results: the answers by key, and the keys in the order of the file.
func readResults(r io.Reader, secret secret.Secret) (answers map[string]Answer, order []string, in Ingested, err error) {
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

// better chooses between two answers to one request: a whole one, and else the one that sorts first.
func better(a, b Answer) bool {
	if (a.Finish == "stop") != (b.Finish == "stop") {
		return a.Finish == "stop"
	}
	return a.Finish+"\n"+a.Text < b.Finish+"\n"+b.Text
}

// parseResult reads one line of results: an answer, or the failure that the line reports, or the error that it is
// neither.
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
		return "", a, "", fmt.Errorf("it is not valid UTF-8")
	}
	if err := json.Unmarshal(line, &result); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) { // its text names Go's types
			return "", a, "", fmt.Errorf("not a batch result: %s is a JSON %s", cmp.Or(kind.Field, "the line"), kind.Value)
		}
		return "", a, "", fmt.Errorf("not a batch result: %w", err)
	}
	if result.CustomID == nil || len(*result.CustomID) != 64 || strings.Trim(*result.CustomID, "0123456789abcdef") != "" {
		return "", a, "", fmt.Errorf("it has no custom_id that --emit-batch wrote: is this the file of results?")
	}
	key = *result.CustomID
	said := func(raw json.RawMessage) string {
		text := string(bytes.TrimSpace(raw))
		if text == "" || text == "null" {
			return ""
		}
		if len(text) > 300 {
			text = strings.ToValidUTF8(text[:300], "") + "…"
		}
		return text
	}
	switch r := result.Response; {
	case said(result.Error) != "":
		return key, a, said(result.Error), nil
	case r == nil:
		return key, a, "it has no response", nil
	case r.StatusCode == 400 || r.StatusCode == 413 || r.StatusCode == 422: // never, for this request
		return key, Answer{Finish: refusedFinish, Text: fmt.Sprintf("status %d %s", r.StatusCode, said(r.Body.Error)), Status: r.StatusCode, Endpoint: batchEndpoint}, "", nil
	case r.StatusCode != 200 && r.StatusCode != 0: // vllm run-batch leaves it out in some versions
		return key, a, fmt.Sprintf("status %d %s", r.StatusCode, said(r.Body.Error)), nil
	case said(r.Body.Error) != "":
		return key, a, said(r.Body.Error), nil
	case len(r.Body.Choices) == 0:
		return key, a, "it has no answer", nil
	case r.Body.Choices[0].FinishReason == "":
		return key, a, "it has no finish_reason: the answer may be cut short", nil
	default:
		a = Answer{Finish: string(r.Body.Choices[0].FinishReason), Model: r.Body.Model, Endpoint: batchEndpoint}
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
