package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

const faultRows = 24

// slow are the faults that end only by a timeout.
var slow = []string{"slow first byte", "keep-alive comments and nothing else", "stall in the middle",
	"an endless answer"}

// hurry returns flags with which a fault that ends only by a timeout takes little time. They do not change the
// requests.
func hurry(fault string) []string {
	if !slices.Contains(slow, fault) {
		return nil
	}
	return []string{"--first-token-timeout", "1s", "--stall-timeout", "1s", "--total-timeout", "3s"}
}

// clean returns what a run without faults makes of a source.
func clean(t testing.TB, source string, args ...string) string {
	t.Helper()
	f := newFolder(t)
	must(t, cli.Done, runArgs(f, source, newServer(t, nil).base(), args...)...)
	f.sound(t, faultRows)
	return f.result(t)
}

func runArgs(f folder, source, url string, args ...string) []string {
	return slices.Concat([]string{"--source", source, "--rows", strconv.Itoa(faultRows), "--out", f.out, "--base-url", url,
		"--model", "fake", "--retries", "20"}, args)
}

// cut closes a connection at once.
func cut(c call, linger int) {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && linger >= 0 {
		tcp.SetLinger(linger)
	}
	conn.Close()
}

// status answers with a status, and with headers given as name, value, ….
func status(code int, message string, headers ...string) func(call) {
	return func(c call) {
		for i := 0; i < len(headers); i += 2 {
			c.w.Header().Set(headers[i], headers[i+1])
		}
		refuse(c.w, c.r, code, message)
	}
}

// begun sends the first n events of a good answer and returns the others.
func begun(c call, n int) []string {
	q, _ := parseQuery(c.body)
	events := c.events(q.answer())
	n = min(n, len(events)-3) // never the finish reason
	for _, e := range events[:n] {
		io.WriteString(c.w, e)
	}
	c.w.(http.Flusher).Flush()
	return events[n:]
}

// hang waits until the client has gone.
func hang(c call) { <-c.r.Context().Done() }

// faults are what can go wrong between gen and its teacher, and how gen ends if it keeps going wrong.
var faults = []struct {
	name string
	f    func(call)
	code int    // the exit code if it never stops
	says string // part of the message then
}{
	{"reset", func(c call) { cut(c, 0) }, cli.Retry, "connection lost"},
	{"closed", func(c call) { cut(c, -1) }, cli.Retry, "connection lost"},
	{"400", status(400, "temperature: too hot"), cli.Failed, "too hot"},
	{"401", status(401, "who are you"), cli.Failed, "check the API key"},
	{"403", status(403, "not you"), cli.Failed, "API key may use this model"},
	{"404", status(404, "no such page"), cli.Failed, "check the base URL"},
	{"404 for the model", status(404, "The model `fake` does not exist"), cli.Failed,
		"choose a model that the endpoint serves"},
	{"408", status(408, "too slow"), cli.Retry, "408"},
	{"413", status(413, "too much"), cli.Failed, "too much"},
	{"422", status(422, "seed: extra fields not permitted"), cli.Failed, "extra fields"},
	{"429", status(429, "slow down"), cli.Retry, "429"},
	{"429 with Retry-After", status(429, "slow down", "Retry-After", "1"), cli.Retry, "429"},
	{"429 with Retry-After as a date", func(c call) {
		status(429, "slow down", "Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))(c)
	}, cli.Retry, "429"},
	{"429 with retry-after-ms", status(429, "slow down", "Retry-After-Ms", "150"), cli.Retry, "429"},
	{"no quota left", func(c call) {
		c.w.WriteHeader(429)
		fmt.Fprintf(c.w, `{"error":{"message":"You exceeded your current quota, %s","type":"insufficient_quota",`+
			`"code":"insufficient_quota"}}`, c.r.Header.Get("Authorization"))
	}, cli.Failed, "add credit to the account"},
	{"500", status(500, "oops"), cli.Retry, "500"},
	{"502", status(502, "no gateway"), cli.Retry, "502"},
	{"503", status(503, "not now"), cli.Retry, "503"},
	{"529", status(529, "overloaded"), cli.Retry, "529"},
	{"a page instead of an error", func(c call) {
		c.w.WriteHeader(502)
		fmt.Fprintf(c.w, "<html><body><h1>502</h1>%s</body></html>", echo(c.r))
	}, cli.Retry, "502"},
	{"slow first byte", hang, cli.Retry, "no token within"},
	{"keep-alive comments and nothing else", func(c call) {
		c.w.Header().Set("Content-Type", "text/event-stream")
		for c.r.Context().Err() == nil {
			io.WriteString(c.w, ": "+echo(c.r)+"\n\n")
			c.w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}, cli.Retry, "no token within"},
	{"stall in the middle", func(c call) { begun(c, 4); hang(c) }, cli.Retry, "no data for"},
	{"cut off without a finish reason", func(c call) { begun(c, 4) }, cli.Failed, "without a finish reason"},
	{"cut off but for the end mark", func(c call) { begun(c, 4); io.WriteString(c.w, "data: [DONE]\n\n") }, cli.Failed,
		"without a finish reason"},
	{"reset in the middle", func(c call) { begun(c, 4); cut(c, 0) }, cli.Retry, "connection lost"},
	{"invalid JSON", func(c call) {
		begun(c, 3)
		io.WriteString(c.w, "data: {\"choices\":[{\"delta\":\n\n")
	}, cli.Failed, "not a chat completion"},
	{"an error in the middle", func(c call) {
		begun(c, 3)
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": "out of memory, " + echo(c.r)}})
		fmt.Fprintf(c.w, "data: %s\n\n", b)
	}, cli.Retry, "out of memory"},
	{"200 with an error", func(c call) {
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": "upstream is away, " + echo(c.r)}})
		c.w.Write(b)
	}, cli.Retry, "upstream is away"},
	{"empty choices", func(c call) {
		c.w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(c.w, "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"model\":\"fake\","+
			"\"choices\":[]}\n\ndata: [DONE]\n\n")
	}, cli.Retry, "no choices"},
	{"nothing at all", func(c call) { c.w.Header().Set("Content-Type", "text/event-stream") }, cli.Retry, "empty"},
	{"an endless answer", func(c call) {
		begun(c, 3)
		for c.r.Context().Err() == nil {
			io.WriteString(c.w, event(fmt.Sprintf("chatcmpl-%x", c.hash), `{"content":"and on "}`, "null"))
			c.w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	}, cli.Retry, "not complete within"},
	{"chunks out of order", func(c call) {
		q, _ := parseQuery(c.body)
		text, finish := q.answer()
		events := c.events(text+"and so on", finish) // the last part is not only a space
		n := len(events)
		events[n-3], events[n-4] = events[n-4], events[n-3] // the finish reason before the last part of the text
		io.WriteString(c.w, strings.Join(events, ""))
	}, cli.Failed, "continues after its finish reason"},
	{"the whole answer twice", func(c call) {
		q, _ := parseQuery(c.body)
		text, finish := q.answer()
		events := c.events(text+strings.Repeat(" and on", 20), finish) // several events
		events = events[:len(events)-2]
		for _, e := range slices.Concat(events, events) {
			io.WriteString(c.w, e)
		}
	}, cli.Failed, "continues after its finish reason"},
	{"a redirect to nowhere", func(c call) {
		c.w.Header().Set("Location", "http://127.0.0.1:1/v1/chat/completions?key="+c.r.Header.Get("Authorization"))
		c.w.WriteHeader(307)
	}, cli.Failed, "if you trust the new location"},
}

// damage are the faults of a server's answers, which a retry may fix. If they stay, running again does not help.
var damage = []string{"cut off without a finish reason", "cut off but for the end mark", "invalid JSON",
	"chunks out of order", "the whole answer twice"}

// passing reports whether a run continues after a fault. After the others it ends or, as after a 400, they concern one
// request.
func passing(name string, code int) bool { return code == cli.Retry || slices.Contains(damage, name) }

// TestPassingFaults_SameBytes checks that if a third of the requests fail once, in each way, the result has the same
// bytes as without faults.
func TestPassingFaults_SameBytes(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	for i, fault := range faults {
		if !passing(fault.name, fault.code) || testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f, hit := newFolder(t), atomic.Int32{}
			s := newServer(t, every(3, func(c call) { hit.Add(1); fault.f(c) }))
			o := must(t, cli.Done, runArgs(f, source, s.base(), hurry(fault.name)...)...)
			if hit.Load() == 0 {
				t.Fatal("the fault never came")
			}
			if f.result(t) != want {
				t.Error("the result differs from that without the fault")
			}
			calls, distinct := s.counts()
			// On a busy machine a good answer may be too slow as well, if the timeouts are short.
			if n := distinct + int(hit.Load()); calls < n || calls > n && !slices.Contains(slow, fault.name) {
				t.Errorf("%d calls for %d prompts and %d faults", calls, distinct, hit.Load())
			}
			lastLine(t, o)
		})
	}
}

// TestLastingFaults_EndTheRun has a server fail forever in each way, from the first request or after some. The run must
// end with the right exit code and a message that says what to do. With a working server it must then resume to the
// same bytes, without asking for any answer again.
func TestLastingFaults_EndTheRun(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	for i, fault := range faults {
		if testing.Short() && i%4 != 1 {
			continue
		}
		for _, good := range []int{0, 10} {
			name := fault.name + " from the start"
			if good > 0 {
				name = fault.name + " after some answers"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, made := newFolder(t), atomic.Int32{}
				broken := atomic.Bool{}
				broken.Store(true)
				s := newServer(t, func(c call) bool {
					if !broken.Load() || int(made.Add(1)) <= good {
						return false
					}
					fault.f(c)
					return true
				})
				args := runArgs(f, source, s.base(), append(hurry(fault.name), "--retries", "1", "--dead-timeout", "300ms")...)
				o := invoke(t, args...)
				perRequest := fault.code == cli.Failed && slices.Contains([]string{"400", "413", "422"}, fault.name)
				if good > 0 && perRequest {
					// Such a refusal concerns only its request, and is recorded.
					if !strings.Contains(o.stderr, "the answer is complete") {
						t.Errorf("the reason is not shown: %v", o)
					}
					return
				}
				if o.code != fault.code {
					t.Fatalf("want exit code %d, got %v", fault.code, o)
				}
				if o.stdout != "" {
					t.Errorf("something on stdout: %s", o.stdout)
				}
				if !strings.Contains(o.stderr, fault.says) || strings.Count(o.stderr, "gen: ") != 1 {
					t.Errorf("want one message that says %q, got %v", fault.says, o)
				}
				if _, err := os.Stat(f.out); err == nil {
					t.Error("a run that failed wrote its output")
				}
				s.outlive(t)
				broken.Store(false)
				before, _ := s.counts()
				kept := len(answers([]byte(expect.Read(t, filepath.Join(f.out+".work", "journal.log")))))
				if good > 0 && kept == 0 {
					t.Error("the journal is empty")
				}
				must(t, cli.Done, runArgs(f, source, s.base())...)
				if f.result(t) != want {
					t.Error("the result differs from that without the fault")
				}
				after, distinct := s.counts()
				if asked := after - before; asked > distinct-kept {
					t.Errorf("%d requests for %d missing answers", asked, distinct-kept)
				}
				if files := f.files(t); !slices.Equal(files, finished) {
					t.Errorf("there are %v", files)
				}
			})
		}
	}
}

// TestRefusedRequests_GiveUpTheirRows checks that if a server always refuses some requests, gen gives up their rows and
// counts the reason.
func TestRefusedRequests_GiveUpTheirRows(t *testing.T) {
	t.Parallel()
	source := tasks(t, 3*faultRows)
	for _, code := range []int{400, 413, 422} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			s := newServer(t, func(c call) bool {
				if c.hash>>8%4 != 0 {
					return false
				}
				status(code, "this is too much for me")(c)
				return true
			})
			o := must(t, cli.Done, runArgs(f, source, s.base())...)
			f.sound(t, faultRows)
			if given := lastLine(t, o)["given_up"].(map[string]any)["A1"]; given == nil || given.(float64) < 2 {
				t.Errorf("given up by A1: %v", given)
			}
			if !strings.Contains(expect.Read(t, filepath.Join(f.out+".work", "journal.log")), "this is too much for me") {
				t.Error("the reason is not in the journal")
			}
		})
	}
}

// TestUnreachable runs gen without a server, or with one that gen cannot talk to.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	expect.OK(t, err)
	defer silent.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = quiet
	untrusted.StartTLS()
	defer untrusted.Close()
	plain := newServer(t, nil)
	other := newServer(t, nil)
	other.set(func() { other.models = []string{"another", "third"} })
	unlisted := newServer(t, always(status(404, "The model `fake` does not exist")))
	unlisted.set(func() { unlisted.models = nil })
	for _, c := range []struct {
		name, url string
		code      int
		says      string
	}{
		{"refused", "http://127.0.0.1:1/v1", cli.Retry, "connection refused"},
		// on a busy machine, connecting takes too long already
		{"silent", "http://" + silent.Addr().String() + "/v1", cli.Retry, "within|i/o timeout"},
		{"silent, with TLS", "https://" + silent.Addr().String() + "/v1", cli.Retry, "timeout"},
		{"TLS that is not trusted", untrusted.URL + "/v1", cli.Failed, "certificate"},
		{"no TLS", "https://" + strings.TrimPrefix(plain.URL, "http://") + "/v1", cli.Failed, "http://"},
		{"TLS wanted", "http://" + strings.TrimPrefix(untrusted.URL, "https://") + "/v1", cli.Failed, "https://"},
		{"without /v1", plain.URL, cli.Failed, "/v1"},
		{"wrong model", other.base(), cli.Failed, "another, third"},
		{"wrong model, no list", unlisted.base(), cli.Failed, "choose a model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			start := time.Now()
			connect := "5m" // long: on a busy machine a handshake waits for the CPU
			if strings.HasPrefix(c.name, "silent") {
				connect = "300ms"
			}
			o := invoke(t, runArgs(f, source, c.url, "--connect-timeout", connect)...)
			if o.code != c.code || !regexp.MustCompile(c.says).MatchString(o.stderr) || strings.Count(o.stderr, "gen: ") != 1 {
				t.Errorf("want exit code %d and one message that says %q, got %v", c.code, c.says, o)
			}
			if took := time.Since(start); took > 10*time.Minute {
				t.Errorf("it took %v", took) // it has waited for the server to come back
			}
			if files := f.files(t); len(files) > 0 {
				t.Errorf("files left over: %v", files)
			}
		})
	}
}

// TestEndlessWait_IsShownAndGivenUp has a server ask for an endless wait: gen must print until when it waits, give up
// after --dead-timeout, and print how many rows have no answer.
func TestEndlessWait_IsShownAndGivenUp(t *testing.T) {
	t.Parallel()
	source := fitTasks(t, faultRows)
	for name, fault := range map[string]func(call){
		"Retry-After: 1e99": status(429, "slow down", "Retry-After", "1e99"), "always 429": status(429, "slow down"),
	} {
		t.Run(name, func(t *testing.T) {
			var stderr said
			f, s := newFolder(t), newServer(t, nil)
			s.set(func() {
				s.fault = always(func(c call) {
					// The first request is rejected at once. The others wait until gen has printed that, however busy the machine
					// is.
					for calls, _ := s.counts(); calls > 1 && c.r.Context().Err() == nil &&
						!strings.Contains(stderr.String(), " is paused until "); {
						time.Sleep(time.Millisecond)
					}
					fault(c)
				})
			})
			o := invokeInto(t, t.Context(), &stderr, runArgs(f, source, s.base(), "--dead-timeout", "1s")...)
			if o.code != cli.Retry {
				t.Fatal(o)
			}
			for _, want := range []string{`no server answers; waiting until \d\d:\d\d:\d\d `,
				` is paused until \d\d:\d\d:\d\d: 429 .*slow down`,
				"no endpoint answers; the last failure: .*429", fmt.Sprintf("rows without an answer: %d\n", faultRows)} {
				if !regexp.MustCompile(want).MatchString(o.stderr) {
					t.Errorf("missing %q in %v", want, o)
				}
			}
		})
	}
}

// TestServerComesBack stops the server in the middle of a run and starts it again.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	f, s := newFolder(t), newServer(t, nil)
	s.set(func() { s.latency = func(uint64) time.Duration { return 20 * time.Millisecond } })
	// At an address of its own, because on 127.0.0.1 any server that starts meanwhile may get the port.
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16&127, pid>>8&255, pid&255))
	if err != nil { // macOS has only the one
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	expect.OK(t, err)
	address := l.Addr().String()
	serve := func(l net.Listener) *http.Server {
		server := &http.Server{Handler: s}
		t.Cleanup(func() { server.Close() })
		go server.Serve(l)
		return server
	}
	first := serve(l)
	var once sync.Once
	breakOnce := func(c call) bool {
		if calls, _ := s.counts(); calls < 12 {
			return false
		}
		once.Do(func() {
			l.Close()
			go first.Close()
			time.AfterFunc(time.Second, func() {
				l, err := net.Listen("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				serve(l)
			})
		})
		return false
	}
	s.set(func() { s.fault = breakOnce })
	must(t, cli.Done, runArgs(f, source, "http://"+address+"/v1")...)
	if f.result(t) != want {
		t.Error("the result differs from that without the fault")
	}
}

// TestRedirect_GetsNoKey checks that another host to which the server redirects gets neither the key nor the questions.
func TestRedirect_GetsNoKey(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, from := range []string{"/v1/models", "/v1/chat/completions"} {
			t.Run(fmt.Sprintf("%d from %s", code, from), func(t *testing.T) {
				t.Parallel()
				elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					t.Errorf("the redirect was followed: %s %s with Authorization %q", r.Method, r.URL.Path,
						r.Header.Get("Authorization"))
				}))
				defer elsewhere.Close()
				inner := newServer(t, nil)
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == from {
						http.Redirect(w, r, elsewhere.URL+r.URL.Path+"?token="+r.Header.Get("Authorization"), code)
						return
					}
					inner.ServeHTTP(w, r)
				}))
				defer s.Close()
				o := must(t, cli.Failed, runArgs(newFolder(t), source, s.URL+"/v1")...)
				if !strings.Contains(o.stderr, elsewhere.URL) {
					t.Errorf("the message does not say where to: %v", o)
				}
			})
		}
	}
}

// TestEndlessAnswer_StopsAtLimit sends an answer without end as fast as possible: gen must stop reading at the limit
// and retry, with the memory of one answer.
func TestEndlessAnswer_StopsAtLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("4 MiB")
	}
	t.Parallel()
	source := tasks(t, 2*faultRows)
	var once atomic.Bool
	s := newServer(t, func(c call) bool {
		if calls, _ := c.s.counts(); calls < 4 || !once.CompareAndSwap(false, true) {
			return false
		}
		begun(c, 3)
		more := strings.Repeat(event(fmt.Sprintf("chatcmpl-%x", c.hash), `{"content":"`+strings.Repeat("and on ", 2000)+`"}`,
			"null"), 8)
		for c.r.Context().Err() == nil {
			if _, err := io.WriteString(c.w, more); err != nil {
				break
			}
		}
		return true
	})
	f := newFolder(t)
	o := must(t, cli.Done, runArgs(f, source, s.base(), "--total-timeout", "1m")...)
	if !strings.Contains(o.stderr, "longer than 4 MiB") {
		t.Errorf("the warning is missing: %v", o)
	}
	if f.result(t) != clean(t, source) {
		t.Error("the result differs from that without the fault")
	}
}

// TestContentFilter_RefusesAnswers checks that gen accepts no answer that the teacher's own filter ended, and asks
// once more for each of them.
func TestContentFilter_RefusesAnswers(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	filter := func(c call) {
		q, _ := parseQuery(c.body)
		text, _ := q.answer()
		c.stream(text, "content_filter")
	}
	f := newFolder(t)
	o := must(t, cli.Done, runArgs(f, source, newServer(t, every(3, filter)).base())...)
	f.sound(t, faultRows)
	if n := lastLine(t, o)["refused"].(map[string]any)["A1"]; n == nil || n.(float64) < 3 {
		t.Errorf("%v refused by A1", n)
	}

	f = newFolder(t)
	o = must(t, cli.Failed, runArgs(f, source, newServer(t, always(filter)).base())...)
	if !strings.Contains(o.stderr, "none of the last 2") ||
		!strings.Contains(o.stderr, `failed A1: it ended with "content`) {
		t.Error(o)
	}
}

// TestAnotherModelAnswers checks that the certificates name the model that answered, even if it is not the requested
// one.
func TestAnotherModelAnswers(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	s := newServer(t, func(c call) bool {
		q, _ := parseQuery(c.body)
		for _, e := range c.events(q.answer()) {
			io.WriteString(c.w, strings.ReplaceAll(e, `"model":"fake"`, `"model":"cheaper"`))
		}
		return true
	})
	must(t, cli.Done, runArgs(f, tasks(t, 2*faultRows), s.base())...)
	certs, err := dataset.ReadCertificates(dataset.CertificatePath(f.out))
	expect.OK(t, err)
	for _, c := range certs {
		if c.Teacher != "fake" || c.Model != "cheaper" {
			t.Fatalf("teacher %q, model %q", c.Teacher, c.Model)
		}
	}
}

// TestUnwritable uses output paths that cannot be written: in a read-only directory, or below a file.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	s := newServer(t, nil)
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, f folder) (args []string)
	}{
		{"read-only folder", func(t *testing.T, f folder) []string {
			if os.Geteuid() == 0 {
				t.Skip("root may write everywhere")
			}
			os.Chmod(f.dir, 0o555)
			t.Cleanup(func() { os.Chmod(f.dir, 0o755) })
			return nil
		}},
		{"a file where the folder is due", func(t *testing.T, f folder) []string {
			os.WriteFile(filepath.Join(f.dir, "file"), nil, 0o644)
			return []string{"--out", filepath.Join(f.dir, "file", "data.json")}
		}},
		{"a file where the work folder is due", func(t *testing.T, f folder) []string {
			os.WriteFile(filepath.Join(f.dir, "file"), nil, 0o644)
			return []string{"--work", filepath.Join(f.dir, "file")}
		}},
		{"a folder where the output is due", func(t *testing.T, f folder) []string {
			os.Mkdir(f.out, 0o755)
			return nil
		}},
		{"a folder where the journal is due", func(t *testing.T, f folder) []string {
			os.MkdirAll(filepath.Join(f.out+".work", "journal.log"), 0o755)
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			args := runArgs(f, source, s.base(), c.spoil(t, f)...)
			before, _ := s.counts()
			o := must(t, cli.Failed, args...)
			if strings.Count(o.stderr, "gen: ") != 1 || !strings.Contains(o.stderr, f.dir) {
				t.Errorf("want one message that names the place, got %v", o)
			}
			if after, _ := s.counts(); after != before {
				t.Errorf("%d requests whose answers could not be recorded", after-before)
			}
		})
	}
}

// TestTornJournal truncates a journal's last line at every kind of place, and damages a line in the middle.
func TestTornJournal(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	s := newServer(t, nil)
	f := newFolder(t)
	args := runArgs(f, source, s.base())
	must(t, cli.Done, args...)
	path := filepath.Join(f.out+".work", "journal.log")
	whole := expect.Read(t, path)
	lines := strings.SplitAfter(strings.TrimRight(whole, "\n"), "\n")
	body := strings.Join(lines[:len(lines)-1], "") // without the record of the run's end
	flip := []byte(body)
	flip[len(body)/2] ^= 1
	for _, c := range []struct {
		name, journal, says string
		missing             int
	}{
		{"the newline is missing", body[:len(body)-1], "last line is incomplete", 1},
		{"half a line", body[:len(body)-200], "last line is incomplete", 1},
		{"one byte of a line", body + "0", "last line is incomplete", 0},
		{"zeros at the end", body + strings.Repeat("\x00", 512), "last line is incomplete", 0},
		{"a flipped bit", string(flip), "checksums", 1},
		{"nothing", "", "", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect.OK(t, os.WriteFile(path, []byte(c.journal), 0o644))
			os.Remove(f.out)
			before, distinct := s.counts()
			o := must(t, cli.Done, args...)
			if !strings.Contains(o.stderr, c.says) {
				t.Errorf("missing %q in %v", c.says, o)
			}
			if f.result(t) != want {
				t.Error("the result differs")
			}
			missing := c.missing
			if missing < 0 {
				missing = distinct
			}
			if after, _ := s.counts(); after-before != missing {
				t.Errorf("asked %d times for %d answers", after-before, missing)
			}
		})
	}
}

// TestSecondRun_IsRefused starts a second run in the work directory of a running one, and one that shares only the
// output.
func TestSecondRun_IsRefused(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	reached, held := make(chan bool), make(chan bool)
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	var once sync.Once
	s := newServer(t, func(c call) bool {
		if calls, _ := c.s.counts(); calls > 5 {
			once.Do(func() { close(reached) })
			<-held
		}
		return false
	})
	f := newFolder(t)
	args := runArgs(f, source, s.base(), "--first-token-timeout", "1m")
	first := make(chan outcome)
	go func() { first <- invoke(t, args...) }()
	<-reached
	for name, second := range map[string][]string{
		"the same":         args,
		"the same output":  append(slices.Clone(args), "--work", filepath.Join(f.dir, "other")),
		"the same journal": append(slices.Clone(args), "--out", filepath.Join(f.dir, "other.json"), "--work", f.out+".work"),
		"a restart": append(slices.Clone(args), "--out", filepath.Join(f.dir, "other.json"), "--work", f.out+".work",
			"--restart"),
	} {
		o := must(t, cli.Failed, second...)
		if !strings.Contains(o.stderr, "wait for it, or set another --out or --work for this run") {
			t.Errorf("%s: %v", name, o)
		}
	}
	release()
	if o := <-first; o.code != cli.Done {
		t.Fatal(o)
	}
	if f.result(t) != want {
		t.Error("the first run was disturbed")
	}
}
