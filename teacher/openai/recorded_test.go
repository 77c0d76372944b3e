package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

// recorded has functions of the package, for the table in testdata/recorded.txt.
var recorded = map[string]func(args ...string) string{
	"body": func(a ...string) string { return parsed(a[0]) }, // of a response
	"stream": func(a ...string) string { // of these events, and no more
		return parsed(events(a...))
	},
	"request": func(a ...string) string { // with these fields more, and with and without a stream
		var r Request
		if err := json.Unmarshal([]byte(a[0]), &r); err != nil {
			return err.Error()
		}
		var out string
		for _, stream := range []bool{false, true} {
			b, err := r.Body(stream)
			out += fmt.Sprintf("%s %v; ", b, err)
		}
		return out
	},
	"failure": func(a ...string) string { // of a status at a base URL with this header and body
		code, _ := strconv.Atoi(a[0])
		header := http.Header{}
		if name, value, ok := strings.Cut(a[2], ": "); ok {
			header.Set(name, value)
		}
		return spellFailure(fromStatus(code, header, []byte(a[3]), a[1], time.Unix(0, 0)))
	},
	"error": func(a ...string) string { // that comes instead of an answer
		return spellFailure(fromErrorObject([]byte(a[0]), "http://h/v1", time.Unix(0, 0)))
	},
	"limit": func(a ...string) string { return limits(a[0], strings.Fields(a[1])) },
	"key":   func(a ...string) string { return fmt.Sprint(Key(a[0], []byte("x")) == Key(a[1], []byte("x"))) },
}

func TestRecorded(t *testing.T) { expect.Recorded(t, "testdata/recorded.txt", recorded) }

func spellFailure(f *failure) string {
	kind := []string{"broken", "throttled", "unreachable", "refused", "fatal"}[f.kind]
	f = (&exchange{}).clean(f)
	return fmt.Sprintf("%s %d %s, overload %t, damage %t, wait %v: %s", kind, f.status, f.reason, f.overload, f.damage,
		f.wait, f.message)
}

// limits returns how a limit of up to most requests, which wait for their first token for at most a second, moves:
// after each event the limit, its mode, and base. A number is a round of answers with that rate. With q they waited
// in the server's queue, with u they apparently did, and with w they waited for half a second or more. +3 means three
// answers of any rate, -5/7/9 is the rejection of request 7 of 9 while 5 are in flight, and k and s are slack and
// start.
func limits(most string, events []string) string {
	n, _ := strconv.Atoi(most)
	l := newLimit(0, n, time.Second)
	now, work := time.Unix(0, 0), int64(0)
	answer := func(rate int, kind string) {
		times := map[string][2]time.Duration{"": {10, 100}, "q": {61, 100}, "e": {60, 100}, "u": {90, 100}, "w": {501, 2000},
			"v": {500, 2000}}[kind]
		now, work = now.Add(time.Second), work+int64(rate)
		l.answered(now, work, times[0]*time.Millisecond, times[1]*time.Millisecond)
	}
	l.start(now, work)
	out := ""
	for _, e := range events {
		rate, _ := strconv.Atoi(strings.TrimRight(strings.TrimLeft(e, "+"), "quewv"))
		var inFlight int
		var request, latest uint64
		switch {
		case e == "k":
			l.slack()
		case e == "s":
			l.start(now, work)
		case e[0] == '+':
			for range rate {
				answer(1, "")
			}
		case e[0] == '-':
			fmt.Sscanf(e, "-%d/%d/%d", &inFlight, &request, &latest)
			l.rejected(now, work, inFlight, request, latest)
		default:
			for range l.skip + l.roundLength() {
				answer(rate, strings.TrimLeft(e, "0123456789"))
			}
		}
		out += fmt.Sprintf("%s: %d %s %d; ", e, l.n, []string{"ramping", "descending", "holding", "probing"}[l.mode], l.base)
	}
	return out + fmt.Sprintf("best %g, sure %d, hold %d, patience %d", l.best, l.sure, l.hold, l.patience)
}

func parsed(body string) string {
	a, err := ParseAnswer([]byte(body))
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%q, %d bytes of thoughts, %s, %s, %d + %d tokens, %q", a.Text, a.Thoughts, a.FinishReason, a.Model,
		a.PromptTokens, a.CompletionTokens, a.Deviations)
}
