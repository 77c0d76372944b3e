package openai

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestSecretIsNotShown(t *testing.T) {
	s := NewSecret(" " + canary + "\n")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s, "in", struct{ s Secret }{s})
	checkLeaks(t, log.String())
	for _, v := range []any{s, &s, struct{ Key Secret }{s}, struct{ key Secret }{s}, &struct{ key *Secret }{&s}, []Secret{s}, map[string]Secret{"k": s}, Options{APIKey: s}} {
		checkLeaks(t, v)
		for _, verb := range "vsqxXdcUtbeTp" {
			text := fmt.Sprintf("%"+string(verb)+"%+"+string(verb)+"%#"+string(verb), v, v, v)
			if found := leak(text); found != "" {
				t.Errorf("%%%c of %T shows %q", verb, v, found)
			}
		}
	}
	if got := fmt.Sprintf("%s %v %#v %q", s, s, s, s); got != strings.Repeat(" "+redacted, 4)[1:] {
		t.Errorf("got %q", got)
	}
	if b, err := json.Marshal(map[string]any{"a": s, "b": Secret{}}); err != nil || string(b) != `{"a":"[redacted]","b":""}` {
		t.Errorf("got %s, %v", b, err)
	}
	if s.reveal() != canary || s.Empty() || !(Secret{}).Empty() || !NewSecret(" ").Empty() || (Secret{}).String() != "" {
		t.Error("wrong content")
	}
}

func TestScrub(t *testing.T) {
	s := NewSecret(canary)
	for _, echo := range strings.Split(echoes(), " | ") {
		for _, around := range []string{"%s", "before %s after", "a%sb", "\"%s\"", "%%%s%%", "\\%s", "%[1]s%[1]s"} {
			text := fmt.Sprintf(around, echo)
			if got := s.Scrub(text); leak(got) != "" || !strings.Contains(got, redacted) {
				t.Errorf("%q became %q, which shows %q", text, got, leak(got))
			}
		}
	}
	for _, innocent := range []string{"", "nothing", canary[:7], canary[3:10], "%", "%4", `\`, `\u`, `\u00`, "100% of \\n", strings.Repeat("日本", 9), "\xff\xfe"} {
		if got := s.Scrub(innocent); got != innocent {
			t.Errorf("%q became %q", innocent, got)
		}
	}
	if got := s.Scrub("a " + canary + " b"); got != "a "+redacted+" b" {
		t.Errorf("got %q", got)
	}
	if got := (Secret{}).Scrub(canary); got != canary {
		t.Errorf("the empty secret made %q", got)
	}
}

// The keys that people give to servers which need none are in no answer, but go out of what is logged.
func TestDummies(t *testing.T) {
	text := "The required token is EMPTY; ollama and sk-no-key-required are words. So is anything; a 1, too."
	for _, key := range []string{"EMPTY", "ollama", "anything", "a", "1", "sk-no-key-required", "required"} {
		s := NewSecret(key)
		if !s.Dummy() || s.In(text) || s.In(key) {
			t.Errorf("key %q is taken for a secret", key)
		}
		want := strings.ReplaceAll(text, key, redacted)
		switch key {
		case "sk-no-key-required":
			want = strings.ReplaceAll(want, "required", redacted) // a part of it
		case "a":
			want = strings.ReplaceAll(text, " a ", " "+redacted+" ")
		}
		if got := s.Scrub(text); got != want {
			t.Errorf("key %q made %q, want %q", key, got, want)
		}
	}
	placeholder := NewSecret("put-your-own-api-key-here")
	if placeholder.Dummy() || placeholder.In("put your own api-key-here") || !placeholder.In("put-your-own-api-key-here.") {
		t.Error("a key of 25 characters is in what has it all, and in no words of it")
	}
	for n, dummy := range map[int]bool{19: true, 20: false} {
		if NewSecret(canary[:n]).Dummy() != dummy || NewSecret(canary[:n]).In(canary) == dummy {
			t.Errorf("a key of %d characters", n)
		}
	}
	s := NewSecret(canary)
	for _, leaked := range []string{canary, canary[4:15], fmt.Sprintf("%x", canary)} {
		if !s.In("x " + leaked) {
			t.Errorf("%q is not found", leaked)
		}
	}
	if s.In(text) || (Secret{}).In(text) {
		t.Error("found where there is none")
	}
}

// A server that repeats the key may leave out its middle.
func TestMaskedKey(t *testing.T) {
	s, last := NewSecret(canary), canary[len(canary)-4:]
	for _, c := range [][2]string{
		{"provided: " + canary[:7] + "********" + last + ".", "provided: " + redacted + "."},
		{"provided: ****" + last, "provided: " + redacted},
		{canary[:4] + "…", redacted},
		{canary[:3] + "..." + canary[len(canary)-1:] + " is wrong", redacted + " is wrong"},
		{canary[:3] + "...", canary[:3] + "..."}, // sk- is no secret
		{"a ** b, and so on ...", "a ** b, and so on ..."},
	} {
		if got := s.Scrub(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}

// A key and a text made to cost as much as possible.
func TestScrubIsLinear(t *testing.T) {
	key := strings.Repeat("a", 1000)
	start := time.Now()
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("a", 999) + "b", strings.Repeat("%61", 1<<18)} {
		NewSecret(key).Scrub(text)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("before ", canary, " after")
	f.Add("%", `\u0061\u0062`, "%2")
	f.Add(strings.Repeat("s", 9), "sk-cAn4r%79%2BZq9%2FxW7vT2", "")
	// What looks like an escape ends with a character of the key.
	f.Add("%2", "9%2FxW7vT2", "")
	f.Add(`\u005`, "9%2FxW7vT2", "%41")
	f.Fuzz(func(t *testing.T, before, middle, after string) {
		s := NewSecret(canary)
		for _, text := range []string{before + middle + after, before + canary + after} {
			got := s.Scrub(text)
			if found := leak(got); found != "" {
				t.Fatalf("%q became %q, which shows %q", text, got, found)
			}
			if leak(text) == "" && len(got) > len(text)+len(redacted)*(len(text)/gram+1) {
				t.Fatalf("%q grew to %q", text, got)
			}
		}
		NewSecret(middle).Scrub(before + middle + after)
	})
}
