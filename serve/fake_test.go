package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"restyle/chat"
	"restyle/data"
	"restyle/hf"
	"restyle/infer"
	"restyle/infer/batch"
	"restyle/tokenizer"
)

// script is what the fake answers, with a seed of 0. Each seed starts one word later.
const script = "A list is reversed with `xs[::-1]`, naïvely speaking. 😀 That is all."

// fake is a Generator that says the script.
type fake struct {
	codec            infer.Codec
	running, started atomic.Int64
	script           string        // what it says instead of script
	refuse           error         // of Start
	failAt           int           // token at which an answer fails, 0 for none
	panics           bool          // it fails by a panic
	pace             time.Duration // between tokens
	hold             chan struct{} // if not nil, every token waits for one of these
	last             atomic.Pointer[batch.Request]
}

type fakeAnswer struct {
	*fake
	r             batch.Request
	ids           []int32
	stream        *tokenizer.Stream
	decoded, text string // so far; decoded also has what is held back
	token         batch.Token
	result        infer.Result
	err           error
	over, closed  bool
}

func (f *fake) Start(r batch.Request) (Answer, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.last.Store(&r)
	f.running.Add(1)
	f.started.Add(1)
	words := strings.SplitAfter(cmp.Or(f.script, script), " ")
	text := strings.Join(words[r.Seed%uint64(len(words)):], "")
	a := &fakeAnswer{fake: f, r: r, stream: f.codec.Tokenizer.Stream(true)}
	markup := []tokenizer.Span{{End: len(text)}} // it may have special tokens
	a.ids = f.codec.Tokenizer.Encode(text, tokenizer.EncodeOptions{Special: markup}).IDs
	a.result.Prompt, a.result.Reused = len(r.Prompt), len(r.Prompt)/16*16
	return a, nil
}

func (f *fake) Stats() batch.Stats { return batch.Stats{Running: int(f.running.Load()), Blocks: 100} }

// Next gives out text as infer does: nothing that may become a stop string.
func (a *fakeAnswer) Next(ctx context.Context) bool {
	if a.over {
		return false
	}
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-ctx.Done():
		}
	}
	time.Sleep(a.pace)
	n := len(a.result.IDs)
	before := a.text
	switch {
	case ctx.Err() != nil:
		a.over, a.result.Reason = true, infer.Cancelled
		return false
	case a.failAt > 0 && n == a.failAt && a.panics:
		panic("index out of range")
	case a.failAt > 0 && n == a.failAt:
		a.over, a.err = true, errors.New("step 7: the device is gone")
		return false
	case n == len(a.ids):
		a.over, a.result.Reason, a.text = true, infer.Stopped, a.decoded
		a.token = batch.Token{ID: -1}
	default:
		id := a.ids[n]
		a.result.IDs = append(a.result.IDs, id)
		a.decoded += a.stream.Add(id)
		a.token = batch.Token{ID: id, Logprob: 0 - float64(n)/8}
		for i := range a.r.Top {
			a.token.Top = append(a.token.Top, batch.Logprob{ID: id + int32(i), Logprob: 0 - float64(n+i)/8})
		}
		a.show()
		if len(a.result.IDs) == a.r.MaxTokens && !a.over {
			a.over, a.result.Reason, a.text = true, infer.Length, a.decoded
		}
	}
	a.token.Text = a.text[len(before):]
	return a.result.Reason == infer.Length || !a.over || a.token.Text != ""
}

// show releases text.
func (a *fakeAnswer) show() {
	shown := len(a.decoded)
	for _, stop := range a.r.Stop {
		if i := strings.Index(a.decoded, stop); i >= 0 {
			a.text, a.over, a.result.Reason = a.decoded[:i], true, infer.Stopped
			return
		}
		for n := range stop {
			if strings.HasSuffix(a.decoded, stop[:n]) {
				shown = min(shown, len(a.decoded)-n)
			}
		}
	}
	a.text = a.decoded[:shown]
}

func (a *fakeAnswer) Token() batch.Token   { return a.token }
func (a *fakeAnswer) Err() error           { return a.err }
func (a *fakeAnswer) Result() infer.Result { return a.result }

func (a *fakeAnswer) Waited() time.Duration { return 0 }

func (a *fakeAnswer) Close() {
	if !a.closed {
		a.running.Add(-1)
	}
	a.closed = true
}

// starter returns the codec of the embedded model.
func starter(t testing.TB) infer.Codec {
	t.Helper()
	files, err := data.StarterModel()
	if err != nil {
		t.Fatal(err)
	}
	c, err := hf.OpenModelFS(files, "starter")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	codec, err := infer.CodecOf(c, "")
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// fixture is a server with one model, "starter", that says the script.
type fixture struct {
	*Server
	*fake
	url string
	log bytes.Buffer // read it after the server is closed
}

func serving(t testing.TB, o Options) *fixture {
	t.Helper()
	return servingCodec(t, o, starter(t), 256)
}

// servingTools serves a model with a template that has tools.
func servingTools(t testing.TB, template string) *fixture {
	t.Helper()
	codec := starter(t)
	var err error
	if codec.Template, err = chat.ByName(template); err != nil {
		t.Fatal(err)
	}
	return servingCodec(t, Options{}, codec, 1024)
}

func servingCodec(t testing.TB, o Options, codec infer.Codec, context int) *fixture {
	t.Helper()
	f := &fixture{}
	o.Log = slog.New(slog.NewJSONHandler(&f.log, nil))
	f.Server = New(o)
	f.fake = &fake{codec: codec}
	if err := f.Add(Model{Name: "starter", Codec: codec, Context: context, Generator: f.fake}); err != nil {
		t.Fatal(err)
	}
	f.Ready()
	server := httptest.NewServer(f.Server)
	t.Cleanup(func() {
		server.Close()
		if n := f.running.Load(); n != 0 {
			t.Errorf("%d answers are not closed", n)
		}
	})
	f.url = server.URL
	return f
}

// post sends a request and returns the status and the body.
func (f *fixture) post(t testing.TB, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if err != nil {
		text = append(text, "(broken off)"...)
	}
	return response.StatusCode, string(text)
}
