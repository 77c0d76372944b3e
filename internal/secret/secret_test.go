package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"restyle/internal/hostile"
	"restyle/internal/secret/secrettest"
)

func TestSecretIsNotShown(t *testing.T) {
	s := New(" " + secrettest.Key + "\n")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s, "in", struct{ s Secret }{s})
	secrettest.Check(t, log.String())
	for _, v := range []any{s, &s, struct{ Key Secret }{s}, struct{ key Secret }{s}, &struct{ key *Secret }{&s},
		[]Secret{s}, map[string]Secret{"k": s}} {
		secrettest.Check(t, v)
		for _, verb := range "vsqxXdcUtbeTp" {
			text := fmt.Sprintf("%"+string(verb)+"%+"+string(verb)+"%#"+string(verb), v, v, v)
			if found := secrettest.Find(text); found != "" {
				t.Errorf("%%%c of %T shows %q", verb, v, found)
			}
		}
	}
	if got := fmt.Sprintf("%s %v %#v %q", s, s, s, s); got != strings.Repeat(" "+Redacted, 4)[1:] {
		t.Errorf("got %q", got)
	}
	if b, err := json.Marshal(map[string]any{"a": s, "b": Secret{}}); err != nil ||
		string(b) != `{"a":"[redacted]","b":""}` {
		t.Errorf("got %s, %v", b, err)
	}
	if s.Reveal() != secrettest.Key || s.Empty() || (Secret{}).Reveal() != "" || (Secret{}).String() != "" ||
		!(Secret{}).Empty() || !New(" ").Empty() {
		t.Error("wrong content")
	}
}

func TestScrub(t *testing.T) {
	s := New(secrettest.Key)
	for _, echo := range secrettest.Spellings() {
		for _, around := range []string{"%s", "before %s after", "a%sb", "\"%s\"", "%%%s%%", "\\%s", "%[1]s%[1]s"} {
			text := fmt.Sprintf(around, echo)
			if got := s.Scrub(text); secrettest.Find(got) != "" || !strings.Contains(got, Redacted) {
				t.Errorf("%q became %q, which shows %q", text, got, secrettest.Find(got))
			}
		}
	}
	for _, innocent := range []string{"", "nothing", secrettest.Key[:7], secrettest.Key[3:10], "%", "%4", `\`, `\u`,
		`\u00`, "100% of \\n", strings.Repeat("日本", 9), "\xff\xfe"} {
		if got := s.Scrub(innocent); got != innocent {
			t.Errorf("%q became %q", innocent, got)
		}
	}
	if got := s.Scrub("a " + secrettest.Key + " b"); got != "a "+Redacted+" b" {
		t.Errorf("got %q", got)
	}
	if got := (Secret{}).Scrub(secrettest.Key); got != secrettest.Key {
		t.Errorf("the empty secret made %q", got)
	}
}

// TestDummyKeys_StayInAnswers checks that keys that users give to servers which need none are found in no answer, but
// are removed from logs.
func TestDummyKeys_StayInAnswers(t *testing.T) {
	text := "The required token is EMPTY; ollama and sk-no-key-required are words. So is anything; a 1, too."
	for _, key := range []string{"EMPTY", "ollama", "anything", "a", "1", "sk-no-key-required", "required"} {
		s := New(key)
		if !s.Dummy() || s.In(text) || s.In(key) {
			t.Errorf("key %q is taken for a secret", key)
		}
		want := strings.ReplaceAll(text, key, Redacted)
		switch key {
		case "sk-no-key-required":
			want = strings.ReplaceAll(want, "required", Redacted) // a part of the key
		case "a":
			want = strings.ReplaceAll(text, " a ", " "+Redacted+" ")
		}
		if got := s.Scrub(text); got != want {
			t.Errorf("key %q made %q, want %q", key, got, want)
		}
	}
	placeholder := New("put-your-own-api-key-here")
	if placeholder.Dummy() || placeholder.In("put your own api-key-here") ||
		!placeholder.In("put-your-own-api-key-here.") {
		t.Error("a key of 25 characters is in what has it all, and in no words of it")
	}
	for n, dummy := range map[int]bool{19: true, 20: false} {
		if New(secrettest.Key[:n]).Dummy() != dummy || New(secrettest.Key[:n]).In(secrettest.Key) == dummy {
			t.Errorf("a key of %d characters", n)
		}
	}
	s := New(secrettest.Key)
	for _, leaked := range []string{secrettest.Key, secrettest.Key[4:15], fmt.Sprintf("%x", secrettest.Key)} {
		if !s.In("x " + leaked) {
			t.Errorf("%q is not found", leaked)
		}
	}
	if s.In(text) || (Secret{}).In(text) {
		t.Error("found where there is none")
	}
}

// TestShortKeys_InEveryEncoding removes keys of few characters, as they are and with what surrounds them encoded. One
// of less than four must stand alone.
func TestShortKeys_InEveryEncoding(t *testing.T) {
	for n := 5; n <= 16; n++ {
		key := secrettest.Key[3 : 3+n]
		s := New(key)
		for _, before := range []string{"", "a", "ab"} {
			for _, after := range []string{"", "z", "zy", "\xff"} {
				text := []byte(before + key + after)
				for _, encoded := range []string{string(text), hex.EncodeToString(text), fmt.Sprintf("%X", text),
					base64.StdEncoding.EncodeToString(text), base64.RawURLEncoding.EncodeToString(text)} {
					if got := s.Scrub("x" + encoded + "x"); !strings.Contains(got, Redacted) {
						t.Errorf("key %q is not found in %q, %q as %q", key, before, after, encoded)
					}
				}
			}
		}
	}
	const twice = "sk-again-A1b2-again-C3d4"
	for _, c := range [][3]string{
		{"walr", "a walrus", "a [redacted]us"}, {"wal", "a walrus", "a walrus"}, {"wal", "wal1", "wal1"},
		{"wal", "(wal)", "([redacted])"}, {"a", "a walrus", "[redacted] walrus"},
		{twice, "x-again-C3d4y", "x[redacted]y"}, {twice, "x-again-A1b2y", "x[redacted]y"}, // the second is longer
		{secrettest.Key, secrettest.Key[3:7] + fmt.Sprintf("%%%02x", secrettest.Key[7]) + secrettest.Key[8:11], Redacted},
	} {
		if got := New(c[0]).Scrub(c[1]); got != c[2] {
			t.Errorf("key %q made %q of %q, want %q", c[0], got, c[1], c[2])
		}
	}
}

// TestSafe checks which addresses may get a secret.
func TestSafe(t *testing.T) {
	for address, want := range map[string]bool{
		"https://a.test": true, "https://10.0.0.1": true, "http://localhost:8000/v1": true, "http://a.localhost": true,
		"http://127.0.0.1:1": true, "http://127.9.9.9": true, "http://[::1]:8000": true, "http://10.0.0.1": false,
		"http://a.test": false, "http://notlocalhost": false, "http://localhost.a.test": false, "http://[::2]": false,
		"ftp://localhost": true, "http:": false,
	} {
		if u, err := url.Parse(address); err != nil || Safe(u) != want {
			t.Errorf("%s is safe: %v, %v", address, !want, err)
		}
	}
}

// TestMaskedKey checks servers that repeat the key without its middle.
func TestMaskedKey(t *testing.T) {
	s, last := New(secrettest.Key), secrettest.Key[len(secrettest.Key)-4:]
	for _, c := range [][2]string{
		{"provided: " + secrettest.Key[:7] + "********" + last + ".", "provided: " + Redacted + "."},
		{"provided: ****" + last, "provided: " + Redacted},
		{secrettest.Key[:4] + "…", Redacted},
		{secrettest.Key[:3] + "..." + secrettest.Key[len(secrettest.Key)-1:] + " is wrong", Redacted + " is wrong"},
		{secrettest.Key[:3] + "...", secrettest.Key[:3] + "..."}, // sk- is not secret
		{"a ** b, and so on ...", "a ** b, and so on ..."},
	} {
		if got := s.Scrub(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}

// TestScrubIsLinear uses a key and a text that are made to cost as much as possible.
func TestScrubIsLinear(t *testing.T) {
	key := strings.Repeat("a", 1000)
	start := time.Now()
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("a", 999) + "b",
		strings.Repeat("%61", 1<<18)} {
		New(key).Scrub(text)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("before ", secrettest.Key, " after")
	f.Add("%", `\u0061\u0062`, "%2")
	f.Add(strings.Repeat("s", 9), "sk-cAn4r%79%2BZq9%2FxW7vT2", "")
	// What looks like an escape ends with a character of the key.
	f.Add("%2", "9%2FxW7vT2", "")
	f.Add(`\u005`, "9%2FxW7vT2", "%41")
	f.Fuzz(func(t *testing.T, before, middle, after string) {
		s := New(secrettest.Key)
		for _, text := range []string{before + middle + after, before + secrettest.Key + after} {
			var got string
			hostile.Within(t, hostile.Linear(len(text)), func() { got = s.Scrub(text) })
			if found := secrettest.Find(got); found != "" {
				t.Fatalf("%q became %q, which shows %q", text, got, found)
			}
			if secrettest.Find(text) == "" && len(got) > len(text)+len(Redacted)*(len(text)/gram+1) {
				t.Fatalf("%q grew to %q", text, got)
			}
		}
		New(middle).Scrub(before + middle + after)
	})
}
