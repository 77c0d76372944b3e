// Package secrettest provides a key for tests and detects leaks of it, in whatever encoding.
package secrettest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Key is the key of tests. Some of its characters change when escaped.
const Key = "sk-cAn4ry+Zq9/xW7vT2=Lm8pQ.0kJ"

// Spellings returns the key in every spelling that a server might return.
func Spellings() []string {
	var percent, escaped string
	for _, c := range []byte(Key) {
		percent += fmt.Sprintf("%%%02x", c)
		escaped += fmt.Sprintf(`\u%04X`, c)
	}
	all := []string{Key, url.QueryEscape(Key), percent, escaped, hex.EncodeToString([]byte(Key)),
		strings.ToUpper(hex.EncodeToString([]byte(Key))), Key[:9], Key[5:14], Key[len(Key)-8:]}
	for _, prefix := range []string{"", "x", "xy", "Bearer "} {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			all = append(all, enc.EncodeToString([]byte(prefix+Key)), enc.EncodeToString([]byte(prefix+Key+"tail")))
		}
	}
	return all
}

// Find returns a trace of the key in s, or "". Its code is independent of secret.Scrub.
func Find(s string) string {
	key := []byte(Key)
	lower := strings.ToLower(s)
	for i := 0; i+8 <= len(key); i++ {
		part := key[i : i+8]
		var percent, escaped string
		for _, c := range part {
			percent += fmt.Sprintf("%%%02x", c)
			escaped += fmt.Sprintf(`\u%04x`, c)
		}
		for _, form := range []string{string(part), url.QueryEscape(string(part)), url.PathEscape(string(part))} {
			if strings.Contains(s, form) {
				return form
			}
		}
		for _, form := range []string{percent, escaped, hex.EncodeToString(part)} {
			if strings.Contains(lower, form) {
				return form
			}
		}
		if i+9 <= len(key) {
			// Nine bytes that start at a multiple of three are twelve characters, wherever they are in a longer text.
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				if form := enc.EncodeToString(key[i : i+9]); strings.Contains(s, form) {
					return form
				}
			}
		}
	}
	return ""
}

// Check prints v in all the ways that a program might, and fails the test if any of them shows the key.
func Check(t testing.TB, v any) {
	t.Helper()
	texts := []string{fmt.Sprint(v), fmt.Sprintf("%v %+v %#v %q", v, v, v, v)}
	if b, err := json.Marshal(v); err == nil {
		texts = append(texts, string(b))
	}
	if err, ok := v.(error); ok && err != nil {
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if found := Find(text); found != "" {
			t.Errorf("%T shows the key as %q: %.300s", v, found, text)
		}
	}
}
