package teacher

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"restyle/internal/disk"
	"restyle/internal/secret"
	"restyle/teacher/openai"
)

// WriteBatchLine writes a request to a batch file, in the JSONL form of OpenAI's Batch API, which vllm run-batch and
// LiteLLM also read. The custom_id of the line is the key, under which the answer is looked up.
func WriteBatchLine(w io.Writer, key string, body []byte) error {
	line := struct {
		CustomID string          `json:"custom_id"`
		Body     json.RawMessage `json:"body"` // the exact bytes
		Method   string          `json:"method"`
		URL      string          `json:"url"`
	}{key, body, http.MethodPost, "/v1/chat/completions"}
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
	Known      int    `json:"known"`      // already in the journal, which keeps its answer
	Duplicates int    `json:"duplicates"` // further results of a request
	Failed     int    `json:"failed"`     // results that are errors; their requests remain unanswered
	Unreadable int    `json:"unreadable"` // lines that are not results, such as an incomplete one
	FirstError string `json:"first_error,omitempty"`

	Deviations []string `json:"deviations,omitempty"` // how the answers deviate from OpenAI's format
}

const maxDeviations = 12 // that are listed

// IngestBatch reads a file of batch results and records the answers in the journal. The order of the lines does not
// matter, not even if a request has several answers. IngestBatch returns an error if no line is a result, because
// then it is some other file. If an answer contains the secret, IngestBatch keeps nothing of it, and the finish
// reason is [openai.KeyInAnswer].
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
		line, size, whole, err := disk.ReadLine(br, maxLine)
		if err != nil {
			return nil, nil, in, fmt.Errorf("batch results: line %d: %w", n, err)
		}
		if size == 0 {
			break
		}
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) > 0 || size > maxLine {
			key, a, deviations, err := parseResult(line)
			for _, d := range deviations {
				if d = secret.Scrub(d); len(in.Deviations) < maxDeviations && !slices.Contains(in.Deviations, d) {
					in.Deviations = append(in.Deviations, d)
				}
			}
			var failure failedResult
			if secret.In(a.Text + "\n" + a.Finish + "\n" + a.Model) {
				a = Answer{Finish: openai.KeyInAnswer, Endpoint: batchEndpoint}
			}
			had, twice := answers[key]
			switch {
			case errors.As(err, &failure):
				complain(&in.Failed, n, "%v", err)
			case err != nil:
				complain(&in.Unreadable, n, "%v", err)
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

// A failedResult is a result without a complete answer.
type failedResult string

func (f failedResult) Error() string { return string(f) }

// parseResult parses one line of results. A failedResult is the failure that the line reports; any other error means
// that the line is not a result.
func parseResult(line []byte) (key string, a Answer, deviations []string, err error) {
	var result struct {
		CustomID string          `json:"custom_id"`
		Response json.RawMessage `json:"response"`
		Error    json.RawMessage `json:"error"`
	}
	var response struct {
		StatusCode json.RawMessage `json:"status_code"` // some versions of vllm run-batch omit it
		Body       json.RawMessage `json:"body"`
	}
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if !utf8.Valid(line) {
		return "", a, nil, fmt.Errorf("not a batch result: not valid UTF-8")
	}
	if !json.Valid(line) {
		line = openai.WithoutNaN(line)
	}
	err = json.Unmarshal(line, &result)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !wrong {
		return "", a, nil, fmt.Errorf("not a batch result: %w", err)
	}
	key = result.CustomID
	if len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" {
		return "", a, nil, fmt.Errorf("its custom_id is missing or is not one that gen wrote: is this the file of results?")
	}
	json.Unmarshal(result.Response, &response)
	if len(response.Body) == 0 && bytes.HasPrefix(result.Response, []byte("{")) {
		response.Body = result.Response // some tools write the answer itself
	}
	json.Unmarshal(response.Body, &body)
	status := strings.TrimSuffix(strings.Trim(string(response.StatusCode), `"`), ".0")
	stated := shortened(body.Error)
	switch status {
	case "400", "413", "422": // this request will never be answered
		number, _ := strconv.Atoi(status)
		return key, Answer{Finish: refusedFinish, Text: fmt.Sprintf("status %s %s", status, stated), Status: number,
			Endpoint: batchEndpoint}, nil, nil
	}
	switch {
	case openai.IsError(result.Error):
		return key, a, nil, failedResult(shortened(result.Error))
	case status != "" && status != "null" && status != "0" && !(len(status) == 3 && status[0] == '2'):
		return key, a, nil, failedResult("status " + status + " " + stated)
	case len(response.Body) == 0:
		return key, a, nil, failedResult("no answer")
	}
	answer, err := openai.ParseAnswer(response.Body)
	if err != nil {
		return key, a, nil, failedResult(err.Error())
	}
	return key, Answer{Text: answer.Text, Thoughts: answer.Thoughts, Finish: answer.FinishReason, Model: answer.Model,
		Endpoint: batchEndpoint, PromptTokens: answer.PromptTokens, CompletionTokens: answer.CompletionTokens,
	}, answer.Deviations, nil
}

// shortened returns the beginning of a field for a message, or "" if it is null.
func shortened(raw json.RawMessage) string {
	s := string(bytes.TrimSpace(raw))
	if s == "null" {
		return ""
	}
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}
