package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// A Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`    // "system", "user" or "assistant"
	Content string `json:"content"` // sent even if empty: some servers refuse a turn without it
}

// A Request is a request to a model.
type Request struct {
	Model       string
	Messages    []Message
	Temperature float64  // always sent, even 0 (greedy)
	MaxTokens   int      // not sent if 0
	Seed        int64    // always sent, even 0
	Stop        []string // not sent if empty

	// Extra holds more fields of the body, such as "top_k" or
	// "chat_template_kwargs". Each replaces a field of the same name; nil omits
	// that field ({"seed": nil} for a server that refuses it, {"max_tokens": nil,
	// "max_completion_tokens": 512} for a reasoning model). "model", "messages" and
	// "stream" cannot be set here.
	Extra map[string]any
}

// Body returns the JSON to send, byte for byte: fields in alphabetical order, no HTML escapes, and always the same
// bytes for the same request. With stream it also asks for a stream that ends with a usage report, as [Pool.Complete]
// requires; without, it is the body of a batch line. Body returns an error if a value cannot be sent: if it is a
// number that is not finite, not UTF-8, or not JSON.
func (r Request) Body(stream bool) ([]byte, error) {
	if r.Model == "" {
		return nil, fmt.Errorf("request without a model: set one that the endpoint serves")
	}
	if len(r.Messages) == 0 {
		return nil, fmt.Errorf("request without messages")
	}
	for i, m := range r.Messages {
		// encoding/json would silently write U+FFFD.
		if !utf8.ValidString(m.Content) || !utf8.ValidString(m.Role) {
			return nil, fmt.Errorf("message %d: not valid UTF-8", i)
		}
	}
	fields := map[string]any{
		"model":       r.Model,
		"messages":    r.Messages,
		"temperature": r.Temperature,
		"seed":        r.Seed,
	}
	if r.MaxTokens != 0 {
		fields["max_tokens"] = r.MaxTokens
	}
	if len(r.Stop) > 0 {
		fields["stop"] = r.Stop
	}
	if stream {
		fields["stream"] = true
		fields["stream_options"] = map[string]bool{"include_usage": true}
	}
	for name, value := range r.Extra {
		switch {
		case name == "model" || name == "messages" || name == "stream":
			return nil, fmt.Errorf("extra field %q: set it in the Request or by Body's argument instead", name)
		case value == nil:
			delete(fields, name)
		default:
			fields[name] = value
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Key returns the cache key of an answer: the SHA-256, in hexadecimal, of the
// endpoint and the body sent to it. Equivalent URLs give the same key: case of
// scheme and host, a default port and a slash at the end do not matter.
func Key(endpoint string, body []byte) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		endpoint = normalURL(u)
	}
	h := sha256.New()
	// The length distinguishes two splits of the same bytes.
	fmt.Fprintf(h, "%d %s\n", len(endpoint), endpoint)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// normalURL returns the same string for all spellings of a URL.
func normalURL(u *url.URL) string {
	return origin(u) + strings.TrimRight(u.EscapedPath(), "/")
}

// origin returns scheme, host and port: what a key may be sent to.
func origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := u.Port()
	if port != "" && !(scheme == "http" && port == "80") && !(scheme == "https" && port == "443") {
		host += ":" + port
	}
	return scheme + "://" + host
}
