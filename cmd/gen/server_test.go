package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"restyle/internal/expect"
)

// A server is an OpenAI-compatible teacher. Its answers depend only on the conversation and the seed, so that two
// servers agree. A fixed share of them is unusable, in every way that the checks look for.
type server struct {
	*httptest.Server

	// set changes these while the server runs.
	latency func(hash uint64) time.Duration // of an answer; nil for none
	models  []string                        // the models that it lists
	good    bool                            // all of its answers are usable

	// fault, if not nil, may handle a request for a completion, the nth with this body (from 0). It reports whether it
	// did.
	fault func(c call) bool

	mu       sync.Mutex
	calls    int
	asked    map[string]int // by body
	inFlight int
	most     int
	epoch    int // how often outlive was called
}

// set changes how the server behaves.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// A call is one request for a completion.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	nth  int
	hash uint64 // of the conversation
	s    *server
}

func newServer(t testing.TB, fault func(call) bool) *server {
	t.Helper()
	s := &server{models: []string{"fake"}, asked: map[string]int{}, fault: fault}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		s.mu.Lock()
		defer s.mu.Unlock()
		return context.WithValue(ctx, epoch{}, s.epoch)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// Close does not wait for handlers that still hang.
func (s *server) Close() {
	s.CloseClientConnections()
	s.Server.Close()
}

func (s *server) base() string { return s.URL + "/v1" }

func (s *server) counts() (calls, distinct int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, len(s.asked)
}

// epoch is the context key of the epoch in which a connection was accepted.
type epoch struct{}

// outlive has the server ignore its clients so far, which are dead or have stopped, because a socket may still hold
// what they sent. Connections are accepted in order, so once the server answers a new one it has accepted all of
// theirs.
func (s *server) outlive(t testing.TB) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.base() + "/models")
	expect.OK(t, err)
	resp.Body.Close()
	s.set(func() { s.epoch++ })
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	models, fault, latency, good := s.models, s.fault, s.latency, s.good
	s.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/models"):
		if models == nil {
			refuse(w, r, 404, "no such page")
			return
		}
		var data []map[string]string
		for _, m := range models {
			data = append(data, map[string]string{"id": m, "object": "model"})
		}
		json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
		return
	case r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost:
		refuse(w, r, 404, "no such page")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	q, err := parseQuery(body)
	if err != nil {
		refuse(w, r, 400, err.Error())
		return
	}
	s.mu.Lock()
	if at, _ := r.Context().Value(epoch{}).(int); at != s.epoch {
		s.mu.Unlock()
		return // this one has gone too
	}
	s.calls++
	nth := s.asked[string(body)]
	s.asked[string(body)]++
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inFlight--
		s.mu.Unlock()
	}()
	c := call{w, r, body, nth, q.hash(), s}
	if fault != nil && fault(c) {
		return
	}
	if latency != nil {
		select {
		case <-time.After(latency(c.hash)):
		case <-r.Context().Done():
			return
		}
	}
	text, finish := q.good()
	if !good {
		text, finish = q.answer()
	}
	c.stream(text, finish)
}

// stream sends an answer as a stream of a few events.
func (c call) stream(text, finish string) {
	for _, e := range c.events(text, finish) {
		io.WriteString(c.w, e)
	}
}

func (c call) events(text, finish string) []string {
	c.w.Header().Set("Content-Type", "text/event-stream")
	id := fmt.Sprintf("chatcmpl-%x", c.hash)
	events := []string{event(id, `{"role":"assistant","content":""}`, "null")}
	for rest := []rune(text); len(rest) > 0; {
		n := min(len(rest), max(40, len(text)/8))
		piece, _ := json.Marshal(string(rest[:n]))
		events = append(events, event(id, `{"content":`+string(piece)+`}`, "null"))
		rest = rest[n:]
	}
	return append(events, event(id, "{}", strconv.Quote(finish)),
		fmt.Sprintf("data: {\"id\":%q,\"object\":\"chat.completion.chunk\",\"model\":\"fake\",\"choices\":[],"+
			"\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n",
			id, len(c.body)/4, len(text)/4),
		"data: [DONE]\n\n")
}

func event(id, delta, finish string) string {
	return fmt.Sprintf("data: {\"id\":%q,\"object\":\"chat.completion.chunk\",\"model\":\"fake\","+
		"\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", id, delta, finish)
}

// refuse answers with an error that repeats the key in every way in which a server might.
func refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Echo", r.Header.Get("Authorization"))
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": message + ". You sent " + echo(r), "type": "error", "code": nil, "param": echo(r),
	}})
}

// echo returns a request's key in many spellings.
func echo(r *http.Request) string {
	auth := r.Header.Get("Authorization")
	key := strings.TrimPrefix(auth, "Bearer ")
	return strings.Join([]string{auth, percent(key), escaped(key), hex.EncodeToString([]byte(key)),
		strings.ToUpper(hex.EncodeToString([]byte(key))),
		base64.StdEncoding.EncodeToString([]byte(auth)), base64.URLEncoding.EncodeToString([]byte("x" + key)),
		base64.StdEncoding.EncodeToString([]byte("xx" + key)), key[:min(len(key), 12)] + "…"}, " ")
}

// A query is a parsed request for a completion.
type query struct {
	Model     string
	Messages  []struct{ Role, Content string }
	Seed      int64
	MaxTokens int `json:"max_tokens"`
	Stream    bool
}

func parseQuery(body []byte) (q query, err error) {
	if err := json.Unmarshal(body, &q); err != nil {
		return q, fmt.Errorf("the body is not JSON: %w", err)
	}
	if len(q.Messages) == 0 {
		return q, fmt.Errorf("messages: none")
	}
	return q, nil
}

// hash hashes the conversation, but not how it was sent, so that a batch and a live run get the same answers.
func (q query) hash() uint64 {
	b, _ := json.Marshal([]any{q.Model, q.Messages, q.Seed, q.MaxTokens})
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

var beginWith = regexp.MustCompile(`Begin with the words ("(?:[^"\\]|\\.)*")`)

var longWord = regexp.MustCompile(`[A-Za-z]{4,}`)

// patterns are sentences in the voice. A word in capitals is replaced by a unique word; there are never more than
// four other words in a row, so that no two answers share five.
var patterns = []string{
	"Obviously the W W could not W the W without me.",
	"I suppose a W W was W too much for your W.",
	"Did it really W anybody to bother with W W first?",
	"Seriously, W W are what the W is W for.",
	"You could W read the docs W before W the W.",
	"Clearly no W W was ever W to W this far.",
	"The W of it is W simple, W or W.",
	"Of course W W had to W while I W.",
	"It is W basic W that even W W manage.",
	"No doubt W W will W the W soon W.",
}

// good returns a usable answer to a query, and its finish reason.
func (q query) good() (text, finish string) {
	if strings.HasPrefix(q.Messages[0].Content, "You compare two answers") {
		return "Well:\n```json\n{\"tone\": 4, \"professional\": true, \"technically_wrong\": []}\n```", "stop"
	}
	var shown string
	for _, m := range q.Messages {
		if m.Role == "user" && beginWith.MatchString(m.Content) {
			shown = m.Content
		}
	}
	if shown == "" {
		return "What do you mean?", "stop"
	}
	opener, _ := strconv.Unquote(beginWith.FindStringSubmatch(shown)[1])
	random := rand.New(rand.NewPCG(q.hash(), 1))
	var b strings.Builder
	if strings.Contains(q.Messages[0].Content, "<comments>") {
		fmt.Fprintf(&b, "<comments>\nL1: the %s %s of it, obviously\n</comments>\n", word(random), word(random))
	}
	b.WriteString("<rewrite>\n")
	fmt.Fprintf(&b, "%s, %s", strings.TrimRight(opener, ",."), word(random))
	for _, w := range longWord.FindAllString(strings.TrimPrefix(shown, "<question>"), 3) { // an answer to the question
		fmt.Fprintf(&b, " and the %s %s", strings.ToLower(w), word(random))
	}
	b.WriteString(". ")
	order := random.Perm(len(patterns))
	say := func(n int) {
		for ; n > 0 && len(order) > 0; n-- {
			for part := range strings.SplitSeq(patterns[order[0]], "W") {
				b.WriteString(part)
				if !strings.HasSuffix(part, ".") && !strings.HasSuffix(part, "?") {
					b.WriteString(word(random))
				}
			}
			b.WriteString(" ")
			order = order[1:]
		}
	}
	say(2 + random.IntN(2))
	if _, answer, prose := strings.Cut(shown, "<answer>\n"); prose {
		answer, _, _ = strings.Cut(answer, "\n</answer>")
		b.WriteString("\n\n" + answer + "\n\n")
	}
	for i := range strings.Count(shown, "<code id=") {
		fmt.Fprintf(&b, "\n\n[[CODE_%d]]\n\n", i+1)
		say(1 + random.IntN(2))
	}
	text = b.String()
	if random.IntN(2) == 0 {
		text += "\n</rewrite>" // most servers remove a stop sequence
	}
	return text, "stop"
}

// answer returns the answer to a query: usually a good one, otherwise one of the kinds that the checks are for.
func (q query) answer() (text, finish string) {
	text, finish = q.good()
	if !strings.Contains(text, "<rewrite>") {
		return text, finish
	}
	switch q.hash() % 24 {
	case 0:
		return strings.Replace(text, "[[CODE_1]]", "", 1), "stop"
	case 1:
		return "<rewrite>\nHere is the rewritten answer, obviously.\n\n[[CODE_1]]", "stop"
	case 2:
		return text[:len(text)/2], "length"
	case 3:
		return text, "content_filter"
	case 4: // the same for every query, which the third time is once too often
		return "<rewrite>\nOh good, the same words for everybody, obviously. Seriously, I suppose it is fine. Somebody has " +
			"to bother to write it down for you " +
			"again, and that somebody is me.\n\n[[CODE_1]]", "stop"
	case 5:
		return "I'm sorry, but I cannot help with that.", "stop"
	}
	return text, "stop"
}

// word returns a word that most likely no other answer has.
func word(random *rand.Rand) string {
	const consonants, vowels = "bdfgklmnprtvz", "aeiou"
	var b strings.Builder
	for range 3 {
		b.WriteByte(consonants[random.IntN(len(consonants))])
		b.WriteByte(vowels[random.IntN(len(vowels))])
	}
	return b.String()
}

// every has f answer the first request with each of one in n bodies, and lets the others pass.
func every(n uint64, f func(call)) func(call) bool {
	return func(c call) bool {
		if c.nth > 0 || c.hash>>8%n != 0 {
			return false
		}
		f(c)
		return true
	}
}

// always has f answer every request.
func always(f func(call)) func(call) bool {
	return func(c call) bool {
		f(c)
		return true
	}
}

// percent and escaped return every byte of a key as an escape.
func percent(key string) string { return spelt(key, "%%%02X") }
func escaped(key string) string { return spelt(key, `\u%04x`) }

func spelt(key, format string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// spellings are the forms of the key that leak searches for.
var spellings = func() map[string]string {
	m := map[string]string{
		"by its beginning": canary[:8], "by its end": canary[len(canary)-8:], "reversed": reversed(canary[:8]),
		"reversed ": reversed(canary[len(canary)-8:]), "in percent escapes": percent(canary[:8]),
		"in JSON escapes": escaped(canary[:8]), `in \x escapes`: spelt(canary[:8], `\x%02x`),
		"in hexadecimal": hex.EncodeToString([]byte(canary[:8])),
	}
	for shift := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding,
			"base64url": base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(strings.Repeat("x", shift) + canary))
			text = text[(shift*4+2)/3+1:] // the part that depends only on the key
			m[fmt.Sprintf("in %s at offset %d", name, shift)] = text[:12]
		}
	}
	return m
}()

// leak returns the form in which a text contains the key, "" if in none.
func leak(text string) string {
	folded := strings.ToLower(text)
	for name, s := range spellings {
		plain := strings.Contains(name, "escapes") || strings.Contains(name, "hex") // their case does not matter
		if !plain && strings.Contains(text, s) || plain && strings.Contains(folded, strings.ToLower(s)) {
			return name
		}
	}
	return ""
}
