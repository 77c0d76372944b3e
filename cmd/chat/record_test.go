package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

func readEvents(t testing.TB, path string) (events []event) {
	t.Helper()
	f, err := os.Open(path)
	expect.OK(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err == nil {
			events = append(events, e)
		}
	}
	return events
}

func TestEntry_Markdown(t *testing.T) {
	for _, c := range []struct {
		name string
		e    entry
		want string
	}{
		{"the original's form", entry{question: "give me the code", answers: map[string]*answer{
			"base": {Text: "Here:\n\n```python\nx = 1\n```", Reason: "stop"}, "tuned": {Text: " Sigh. ", Reason: "stop"}}},
			"### Query: *\"give me the code\"*\n\n**Base model:**\n> Here:\n> \n> ```python\n> x = 1\n> ```\n\n**Tuned " +
				"model:**\n> Sigh.\n\n---\n\n"},
		{"one model, cut", entry{question: "q", answers: map[string]*answer{"tuned": {Text: "a", Reason: "length",
			Tokens: 256}}},
			"### Query: *\"q\"*\n\n**Tuned model:**\n> a\n\n*(cut at 256 tokens)*\n\n---\n\n"},
		{"several lines, with a fence inside", entry{question: "what is\r\n````\nthis\n````",
			answers: map[string]*answer{"base": {Text: "a", Reason: "stop"}}},
			"### Query: *\"what is …\"*\n\n`````\nwhat is\n````\nthis\n````\n`````\n\n**Base model:**\n> a\n\n---\n\n"},
		{"nothing breaks out of the quotation", entry{question: "q",
			answers: map[string]*answer{"base": {Text: "a\r---\r\n### Query", Reason: "stop"}}},
			"### Query: *\"q\"*\n\n**Base model:**\n> a\n> ---\n> ### Query\n\n---\n\n"},
	} {
		if got := c.e.markdown(); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

func TestRecord(t *testing.T) {
	md := filepath.Join(t.TempDir(), "log.md")
	for round := range 2 {
		r, recovered, err := openRecord(md)
		if err != nil || recovered != 0 || len(r.questions()) != round {
			t.Fatal(recovered, r.questions(), err)
		}
		id := newID()
		for _, e := range []event{
			{Event: "ask", ID: id, Question: "q <b>", Models: map[string]string{"base": "b", "tuned": "t"},
				Settings: &settings{}},
			{Event: "part", ID: id, Text: map[string]string{"base": "ans"}},
			{Event: "answer", ID: id, Model: "base", Answer: &answer{Text: "answer", Reason: "stop"}},
		} {
			expect.OK(t, r.add(e, true))
		}
		expect.OK(t, r.log(&entry{id: id, question: "q <b>",
			answers: map[string]*answer{"base": {Text: "answer"}}}))
		expect.OK(t, r.close())
	}
	if n := strings.Count(expect.Read(t, md), "### Query: *\"q &lt;b>\"*"); n != 2 {
		t.Errorf("%d entries:\n%s", n, expect.Read(t, md))
	}
	if events := readEvents(t, jsonlPath(md)); len(events) != 8 || events[0].Question != "q <b>" ||
		events[3].Event != "logged" {
		t.Errorf("%+v", events)
	}
	if text := expect.Read(t, jsonlPath(md)); !strings.Contains(text, `"question":"q <b>"`) {
		t.Errorf("the record is hard to read:\n%s", text)
	}
}

// TestRecord_RefusesOtherFiles checks that a file that is no record is refused, and that a record whose first line a
// kill cut short is accepted every time it is opened.
func TestRecord_RefusesOtherFiles(t *testing.T) {
	for text, ours := range map[string]bool{"": true, `{"ev`: true, `{"event":"ask","id":"1"}` + "\n": true, "\n": false,
		"[]": false, `{"prompt":"a"}` + "\n": false} {
		md := filepath.Join(t.TempDir(), "log.md")
		expect.OK(t, os.WriteFile(jsonlPath(md), []byte(text), 0o666))
		for range 3 {
			r, _, err := openRecord(md)
			if ours != (err == nil) {
				t.Fatalf("%q: %v", text, err)
			}
			if err != nil {
				break
			}
			expect.OK(t, errors.Join(r.add(event{Event: "ask", ID: newID(), Question: "q"}, true), r.close()))
		}
		if got := expect.Read(t, jsonlPath(md)); !strings.HasPrefix(got, text) || !ours && got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestRecover truncates the record of a question at many places, as kills do, and opens it again.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	md := filepath.Join(dir, "log.md")
	r, _, err := openRecord(md)
	expect.OK(t, err)
	models := map[string]string{"base": "b", "tuned": "t"}
	for _, e := range []event{
		{Event: "ask", ID: "1", Question: "first", Models: models},
		{Event: "part", ID: "1", Text: map[string]string{"base": "on", "tuned": "t"}},
		{Event: "part", ID: "1", Text: map[string]string{"base": "e", "tuned": "w"}},
		{Event: "answer", ID: "1", Model: "base", Answer: &answer{Text: "one", Reason: "stop"}},
		{Event: "answer", ID: "1", Model: "tuned", Answer: &answer{Text: "two", Reason: "stop"}},
	} {
		expect.OK(t, r.add(e, false))
	}
	r.close()
	whole := expect.Read(t, jsonlPath(md))
	ask := strings.Index(whole, "\n") + 1
	parts := strings.LastIndex(whole, `{"event":"part"`)
	for n := 0; n <= len(whole); n++ {
		if n%17 != 0 && n < len(whole)-2 && n != ask-1 && n != parts {
			continue // each of these takes an fsync
		}
		os.Remove(md)
		expect.OK(t, os.WriteFile(jsonlPath(md), []byte(whole[:n]), 0o644))
		for again := range 2 {
			r, recovered, err := openRecord(md)
			expect.OK(t, err)
			r.close()
			want := 0
			if again == 0 && n >= ask-1 { // the final line break is not required
				want = 1
			}
			if recovered != want {
				t.Fatalf("cut off at byte %d of %d, opened %d times: %d entries were written, want %d", n, len(whole), again+1,
					recovered, want)
			}
		}
		text := expect.Read(t, md)
		switch {
		case n < ask-1:
			if text != "" {
				t.Errorf("an entry of nothing: %q", text)
			}
		case n >= len(whole)-1:
			if want := "### Query: *\"first\"*\n\n**Base model, b:**\n> one\n\n**Tuned model, t:**\n> " +
				"two\n\n---\n\n"; text != want {
				t.Errorf("%q", text)
			}
		case n >= parts:
			if !strings.Contains(text, "> on") || !strings.Contains(text, "cut: the program was killed") {
				t.Errorf("cut off at byte %d: what was shown is lost:\n%s", n, text)
			}
		}
	}
}

func TestARunningChatIsNotRecovered(t *testing.T) {
	md := filepath.Join(t.TempDir(), "log.md")
	first, _, err := openRecord(md)
	expect.OK(t, err)
	expect.OK(t, first.add(event{Event: "ask", ID: "1", Question: "q", Models: map[string]string{"base": "b"}},
		true))
	second, recovered, err := openRecord(md)
	if err != nil || recovered != 0 {
		t.Errorf("a second chat wrote %d entries of the first, %v", recovered, err)
	}
	first.close()
	second.close()
	third, recovered, err := openRecord(md)
	if err != nil || recovered != 1 {
		t.Errorf("%d entries, %v", recovered, err)
	}
	third.close()
}

func TestTornMarkdown(t *testing.T) {
	md := filepath.Join(t.TempDir(), "log.md")
	expect.OK(t, os.WriteFile(md, []byte("### Query: *\"to"), 0o644))
	r, _, err := openRecord(md)
	expect.OK(t, err)
	r.log(&entry{id: "1", question: "q", answers: map[string]*answer{"base": {Text: "a"}}})
	r.close()
	if text := expect.Read(t, md); !strings.HasPrefix(text, "### Query: *\"to\n### Query: *\"q\"*\n") {
		t.Errorf("%q", text)
	}
}

func TestRecordErrors(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := openRecord(filepath.Join(dir, "no/such/folder/log.md")); err == nil ||
		!strings.Contains(err.Error(), "--log") {
		t.Errorf("a folder that is not there: %v", err)
	}
	// The disk is full: /dev/full accepts no bytes.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	md := filepath.Join(dir, "log.md")
	r, _, err := openRecord(md)
	expect.OK(t, err)
	r.jsonl.Close()
	r.jsonl = &disk.File{File: full}
	for range 2 {
		err := r.add(event{Event: "ask", ID: "1"}, true)
		var logErr *logError
		if !errors.As(err, &logErr) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
			t.Errorf("a full disk: %v", err)
		}
	}
	if err := r.log(&entry{id: "1"}); err == nil || expect.Read(t, md) != "" {
		t.Error("after a failure nothing more is written")
	}
}

func TestNoRecord(t *testing.T) {
	var r *record
	if r.add(event{}, true) != nil || r.log(&entry{}) != nil || r.close() != nil || r.questions() != nil {
		t.Error("without a log everything is well")
	}
}
