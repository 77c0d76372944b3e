package openai

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"restyle/internal/hostile"
	"restyle/internal/secret"
)

func TestAskedWait(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, test := range []struct {
		headers string // name: value; …
		limits  bool
		want    time.Duration
	}{
		{"", true, 0},
		{"Retry-After: 7", false, 7 * time.Second},
		{"Retry-After: 1.5", false, 1500 * time.Millisecond},
		{"Retry-After: 0", true, 0},
		{"Retry-After: -9", true, 0},
		{"Retry-After: 1e99", true, longestWait},
		{"Retry-After: Inf", true, longestWait},
		{"Retry-After: NaN", true, 0},
		{"Retry-After: soon", true, 0},
		{"Retry-After: " + date(time.Minute), false, time.Minute},
		{"Retry-After: " + date(-time.Minute), false, 0},
		{"Retry-After: " + date(time.Hour), false, longestWait},
		{"Retry-After: " + date(time.Hour) + "; Date: " + date(time.Hour-9*time.Second), false, 9 * time.Second},
		{"Retry-After-Ms: 250; Retry-After: 9", false, 250 * time.Millisecond},
		{"X-Ratelimit-Reset-Requests: 120ms; X-Ratelimit-Reset-Tokens: 2m3s", true, 123 * time.Second},
		{"X-Ratelimit-Reset-Requests: 120ms", false, 0},
		{"X-Ratelimit-Reset: 3", true, 3 * time.Second},
		{"X-Ratelimit-Reset: 1767323045", true, 0},
		{"Retry-After: 2; X-Ratelimit-Reset-Tokens: 1m", true, 2 * time.Second},
	} {
		h := http.Header{}
		for _, line := range strings.Split(test.headers, "; ") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				h.Set(name, value)
			}
		}
		if got := askedWait(h, test.limits, now); got != test.want {
			t.Errorf("%s: got %v, want %v", test.headers, got, test.want)
		}
	}
}

// TestAskedWaitOfSeveral gives every header none, a small, a large, another or an unreadable value, in every
// combination: the first of two asks for a wait, and of the three limits the one that ends last.
func TestAskedWaitOfSeveral(t *testing.T) {
	names := []string{"Retry-After-Ms", "Retry-After", "X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens",
		"X-Ratelimit-Reset"}
	values := [][5]string{{"", "1000", "2000", "0.5e3", "soon"}, {"", "3", "4", "2.5", "soon"},
		{"", "5s", "1m2s", "65", "soon"}, {"", "6s", "1m1s", "64", "soon"}, {"", "7s", "1m0s", "63", "soon"}}
	seconds := [][5]float64{{0, 1, 2, 0.5, 0}, {0, 3, 4, 2.5, 0}, {0, 5, 62, 65, 0}, {0, 6, 61, 64, 0}, {0, 7, 60, 63, 0}}
	for number := range 5 * 5 * 5 * 5 * 5 {
		h, asked := http.Header{}, [5]float64{}
		for i, rest := 0, number; i < len(names); i, rest = i+1, rest/5 {
			if asked[i] = seconds[i][rest%5]; rest%5 > 0 {
				h.Set(names[i], values[i][rest%5])
			}
		}
		always := cmp.Or(asked[0], asked[1])
		for limits, want := range map[bool]float64{false: always, true: cmp.Or(always, max(asked[2], asked[3], asked[4]))} {
			if got := askedWait(h, limits, time.Time{}); got != capped(want) {
				t.Errorf("%v, limits %v: got %v, want %v s", h, limits, got, want)
			}
		}
	}
}

func TestReadError(t *testing.T) {
	for _, test := range []struct {
		body string
		want said
	}{
		{`{"error":{"message":"m","type":"t","code":"c"}}`, said{"m", "t", "c"}},
		{`{"error":{"message":"m","code":404}}`, said{"m", "", "404"}},
		{`{"error":{"message":"m","code":429,"status":"RESOURCE_EXHAUSTED"}}`, said{"m", "", "429"}},
		{`[{"error":{"message":"m","status":"INVALID_ARGUMENT"}}]`, said{"m", "", "INVALID_ARGUMENT"}},
		{`{"error":"m"}`, said{"m", "", ""}},
		{`{"error":{"type":"t"}}`, said{`{"error":{"type":"t"}}`, "t", ""}},
		{`{"detail":"m"}`, said{"m", "", ""}},
		{`{"detail":[{"msg":"m"}]}`, said{`[{"msg":"m"}]`, "", ""}},
		{`{"object":"error","message":"m","type":"t","code":400}`, said{"m", "t", "400"}},
		{`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, said{"m", "overloaded_error", ""}},
		{"<html>\n<b>m</b> &c</html>", said{"m &c", "", ""}},
		{"m\r\n\x00n\xff", said{"m n?", "", ""}},
		{"", said{}},
		{"null", said{"null", "", ""}},
		{"[]", said{"[]", "", ""}},
		{`{"error":null}`, said{`{"error":null}`, "", ""}},
	} {
		if got := readError([]byte(test.body)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.body, got, test.want)
		}
	}
}

func FuzzFromStatus(f *testing.F) {
	f.Add(429, `{"error":{"message":"m","type":"t","code":"c"}}`, "7", "1m")
	f.Add(200, `[{"error":[1]}]`, "Fri, 02 Jan 2026 03:04:05 GMT", "x")
	f.Add(404, `<html><<>>`, "1e400", "-1s")
	f.Fuzz(func(t *testing.T, status int, body, after, reset string) {
		h := http.Header{"Retry-After": {after}, "X-Ratelimit-Reset-Tokens": {reset}, "Location": {body}}
		var fail *failure
		hostile.Within(t, hostile.Linear(len(body)+len(after)+len(reset)), func() {
			fail = fromStatus(status, h, []byte(body), "http://h/v1", time.Unix(0, 0))
		})
		if fail.wait < 0 || fail.wait > longestWait {
			t.Errorf("wait %v", fail.wait)
		}
		x := exchange{key: secret.New(canary)}
		if m := x.clean(fail).message; len(m) > maxMessage+200 || !utf8.ValidString(m) || strings.ContainsAny(m, "\n\r\x00") {
			t.Errorf("message %q", m)
		}
		fromErrorObject([]byte(body), "http://h", time.Unix(0, 0))
	})
}
