package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/teacher"
	"restyle/teacher/openai"
	"restyle/voice"
)

// listing starts a server that lists these models. It has no list if that is 404, and takes no connection if it is
// dead.
func listing(t *testing.T, models string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if models == "404" {
			w.WriteHeader(404)
			return
		}
		ids := strings.ReplaceAll(models, ",", `"},{"id":"`)
		io.WriteString(w, strings.ReplaceAll(`{"data":[{"id":"`+ids+`"}]}`, `{"id":""}`, ""))
	}))
	t.Cleanup(s.Close)
	if models == "dead" {
		s.Close()
	}
	return s.URL + "/v1"
}

// TestConnect checks which of the models that servers list gen takes.
func TestConnect(t *testing.T) {
	nine := "a,b,c,d,e,f,g,h,i"
	for _, c := range []struct {
		servers     string // their models
		model, want string // want is the model, or part of the error
		said        string
	}{
		{"m", "", "m", ""},
		{"m m", "", "m", ""},
		{"b,c a", "", "several models: name one with --model: a, b, c", ""},
		{nine, "", "several models: name one with --model: a, b, c, d, e, f, g, h and 1 more", ""},
		{nine[:15], "", "several models: name one with --model: a, b, c, d, e, f, g, h", ""},
		{"404", "", "does not list its models: name one with --model", ""},
		{",", "", "does not list its models: name one with --model", ""},
		{"404 m", "", "m", ""},
		{"a,b 404", "", "does not list its models: name one with --model", ""},
		{"404", "x", "x", ""},
		{"404 m", "m", "m", ""},
		{"404 m", "x", `model "x": SERVER does not have it: choose one of m`, ""},
		{"m,x m", "x", `model "x": SERVER does not have it: choose one of m`, ""},
		{"models/Llama:latest", "llama", "llama", ""},
		{"llama:7b", "models/LLAMA", "models/LLAMA", ""},
		{"llama3", "llama", "does not have it", ""},
		{"dead m", "", "m", "warning: not using DEAD for now: "},
		{"dead m", "x", "does not have it", "warning: not using DEAD for now: "},
		{"dead", "", "no server can be used: gave up at attempt 1; the last failure: DEAD: ", ""},
		{"dead dead", "x", "no server can be used: gave up at attempt 1; the last failure: DEAD: ", ""},
		{"none", "x", "base URL", ""},
		{"dry dead", "", "the-only-model-there", ""},
		{"dry dead", "x", "x", ""},
	} {
		var said strings.Builder
		g := &gen{options: &options{}, stderr: &said}
		var urls, names []string
		for _, models := range strings.Fields(c.servers) {
			url := "http://"
			switch {
			case models == "dry":
				g.dryRun = true
				continue
			case models != "none":
				url = listing(t, models)
			}
			urls, names = append(urls, url), append(names, url, map[bool]string{true: "DEAD", false: "SERVER"}[models == "dead"])
		}
		pool, model, err := g.connect(t.Context(), urls, g.key, c.model)
		plain := strings.NewReplacer(names...)
		if err != nil {
			if pool != nil || model != "" || !strings.Contains(plain.Replace(err.Error()), c.want) {
				t.Errorf("%+v: %q, %v", c, model, err)
			}
		} else if model != c.want || len(pool.Stats().Endpoints) != len(urls) {
			t.Errorf("%+v: %q", c, model)
		}
		if got := plain.Replace(said.String()); !strings.HasPrefix(got, c.said) || (got == "") != (c.said == "") {
			t.Errorf("%+v: printed %q", c, got)
		}
	}
}

// TestChooseLanguage checks for which rows answers are restated.
func TestChooseLanguage(t *testing.T) {
	const prose = `{"instruction":"When?","output":"It takes a day or two, as always."}` + "\n"
	const code = `{"instruction":"Add.","output":"def add(a, b):\n    return a + b"}` + "\n"
	for _, c := range []struct {
		name, rows, language string // language as given, "" if not
		skip, builtin        bool
		want, says           string // the language, and what is printed or refused
	}{
		{"prose", prose + prose, "", false, false, "none", "language    none: no code in 2 rows of FILE, so gen has the"},
		{"code last", prose + code, "", false, false, "python", ""},
		{"code", code, "", false, false, "python", ""},
		{"built in", prose, "", false, true, "none", "no code in 1 row of FILE, so the built-in rewriter keeps each answer"},
		{"built in, code", code, "", false, true, "python", ""},
		{"given", prose, "python", false, true, "python", ""},
		{"given none", code, "none", false, false, "none", ""},
		{"given none, built in", code, "none", false, true, "none", ""},
		{"damaged", prose + "{\n" + code, "", false, false, "none", "no code in 1 row of"},
		{"damaged, skipped", prose + "{\n" + code, "", true, false, "python", ""},
		{"late", strings.Repeat(prose, maxLooked-1) + code, "", false, false, "python", ""},
		{"too late", strings.Repeat(prose, maxLooked) + code, "", false, false, "none", "no code in 1000 rows of"},
	} {
		var said strings.Builder
		path := expect.File(t, "rows.jsonl", c.rows)
		g := &gen{options: &options{sources: cli.Files{path}, skipBad: c.skip, languageGiven: c.language != "",
			language: teacher.Python}, stderr: &said}
		if c.language != "" {
			g.language = c.language
		}
		if !c.builtin {
			g.remote = &teacher.Remote{}
		}
		var err error
		if g.voice, err = voice.Builtin(voice.Default); err != nil {
			t.Fatal(err)
		}
		err = g.chooseLanguage(t.Context())
		got := strings.ReplaceAll(said.String(), path, "FILE")
		if err != nil {
			got += strings.ReplaceAll(err.Error(), path, "FILE")
		}
		if g.language != c.want || !strings.Contains(got, c.says) || (got == "") != (c.says == "") ||
			err != nil {
			t.Errorf("%s: %s, %q, %v", c.name, g.language, got, err)
		}
		g.voice = &voice.Style{} // which has no skeletons
		if err := g.chooseLanguage(t.Context()); (err != nil) != (c.builtin && c.want == "none") ||
			err != nil && !strings.Contains(err.Error(), "in this style the built-in rewriter only writes around code") {
			t.Errorf("%s, in a style that cannot keep answers: %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := &gen{options: &options{sources: cli.Files{expect.File(t, "rows.jsonl", prose)}}, remote: &teacher.Remote{}}
	if err := g.chooseLanguage(ctx); err == nil || g.language == teacher.NoLanguage {
		t.Errorf("canceled: %v, language %q", err, g.language)
	}
}

// TestWarnIfDead checks when gen prints that no server answers: once, until one does.
func TestWarnIfDead(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) }))
	defer slow.Close()
	for _, c := range []struct {
		urls  []string
		state string
		at    time.Duration // since when no server answers
	}{{[]string{listing(t, "dead"), listing(t, "dead")}, "down", 0}, {[]string{slow.URL + "/v1"}, "alive", plainLine}} {
		pool, err := openai.New(openai.Options{BaseURLs: c.urls, DeadTimeout: time.Hour, Backoff: 1})
		expect.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := pool.Complete(ctx, []byte("x")); done <- err }()
		var s openai.Stats
		for s.GiveUpAt.IsZero() || c.state == "down" && s.Alive > 0 {
			time.Sleep(time.Millisecond)
			s = pool.Stats()
		}
		var said strings.Builder
		p := &progress{g: &gen{options: &options{deadTimeout: time.Hour}, stderr: &said, remote: &teacher.Remote{Pool: pool}}}
		since := s.GiveUpAt.Add(-time.Hour)
		warn := func(at time.Duration, warns bool) {
			t.Helper()
			said.Reset()
			p.warnIfDead(since.Add(at))
			want := fmt.Sprintf("no server answers; waiting until %s (--dead-timeout 1h0m0s), then", clock(s.GiveUpAt))
			lines := strings.Split(strings.TrimSpace(said.String()), "\n")
			if !warns && said.Len() > 0 || warns && (!strings.HasPrefix(lines[0], want) || len(lines) != 1+len(c.urls)) {
				t.Errorf("%s, after %v: %q", c.state, at, said.String())
			}
			for i, url := range c.urls {
				if warns && !strings.HasPrefix(lines[1+i], "  "+url+" is ") {
					t.Errorf("%s: %q", c.state, lines)
				}
			}
		}
		if c.at > 0 {
			warn(c.at-1, false)
		}
		warn(c.at, true)
		warn(c.at+time.Minute, false)
		idle, err := openai.New(openai.Options{BaseURLs: c.urls})
		expect.OK(t, err)
		p.g.remote.Pool = idle // of which nothing is known
		warn(c.at, false)
		p.g.remote.Pool = pool
		warn(c.at, true)
		cancel()
		<-done
	}
	(&progress{g: &gen{}}).warnIfDead(time.Now())
	(&progress{g: &gen{remote: &teacher.Remote{}}}).warnIfDead(time.Now())
}
