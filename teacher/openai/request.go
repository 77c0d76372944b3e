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

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`    // "system", "user" or "assistant"
	Content string `json:"content"` // sent even when empty: some servers refuse a turn without it
}

// Request is what is asked of a model, before it becomes bytes.
type Request struct {
	Model       string
	Messages    []Message
	Temperature float64  // always sent, 0 too (greedy)
	TopP        float64  // 0: not sent, the endpoint's default holds
	MaxTokens   int      // 0: not sent
	Seed        int64    // always sent, 0 too
	Stop        []string // none: not sent

	// Extra holds further fields of the body, such as "top_k" or
	// "chat_template_kwargs". They replace a field of the same name; nil leaves
	// that field out ({"seed": nil} for a server that refuses it, {"max_tokens":
	// nil, "max_completion_tokens": 512} for a reasoning model). "model",
	// "messages" and "stream" cannot be set here.
	Extra map[string]any
}

// Body returns the JSON that goes on the wire, byte for byte: fields in
// alphabetical order, no HTML escapes, the same request always the same bytes.
// With stream it also asks for a stream that ends in a usage report, which is
// what [Pool.Complete] wants; without, it is the body of a batch line. The error
// says which value cannot be sent: not a finite number, not UTF-8, not JSON.
func (r Request) Body(stream bool) ([]byte, error) {
	if r.Model == "" {
		return nil, fmt.Errorf("request without a model: name one that the endpoint serves")
	}
	if len(r.Messages) == 0 {
		return nil, fmt.Errorf("request without messages")
	}
	for i, m := range r.Messages {
		// encoding/json would put U+FFFD there and say nothing.
		if !utf8.ValidString(m.Content) || !utf8.ValidString(m.Role) {
			return nil, fmt.Errorf("message %d is not valid UTF-8", i)
		}
	}
	fields := map[string]any{
		"model":       r.Model,
		"messages":    r.Messages,
		"temperature": r.Temperature,
		"seed":        r.Seed,
	}
	if r.TopP != 0 {
		fields["top_p"] = r.TopP
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
			return nil, fmt.Errorf("extra field %q: set it through Request and Body instead", name)
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

// Key names an answer in a cache: the SHA-256, in hex, of the endpoint and the
// body sent to it. URLs that lead to the same place give the same key: case of
// scheme and host, a default port and a slash at the end do not matter.
func Key(endpoint string, body []byte) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		endpoint = normalURL(u)
	}
	h := sha256.New()
	// The length keeps two different splits of the same bytes apart.
	fmt.Fprintf(h, "%d %s\n", len(endpoint), endpoint)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// normalURL drops what makes no difference to where u leads.
func normalURL(u *url.URL) string {
	return origin(u) + strings.TrimRight(u.EscapedPath(), "/")
}

// origin is scheme, host and port: what a key may be sent to.
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
