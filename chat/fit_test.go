package chat

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// talk makes a conversation from letters: s, u, a and t are the roles, and each content is the letter and its index.
func talk(roles string) []Message {
	names := map[rune]string{'s': "system", 'u': "user", 'a': "assistant", 't': "tool"}
	var messages []Message
	for i, r := range roles {
		messages = append(messages, Message{Role: names[r], Content: string(r) + string(rune('0'+i))})
	}
	return messages
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		roles string
		limit int // bytes of the raw text: 2 per message, and 2 between two messages
		left  string
		gone  int
	}{
		{"u", 2, "u0", 0},
		{"uau", 10, "u0 a1 u2", 0},
		{"uau", 9, "u2", 1},
		{"suauau", 22, "s0 u1 a2 u3 a4 u5", 0},
		{"suauau", 21, "s0 u3 a4 u5", 1},
		{"suauau", 13, "s0 u5", 2},
		{"suauau", 6, "s0 u5", 2},
		{"suauau", 5, "", 0},
		{"auau", 6, "u3", 1},  // an answer before the first question goes with the first turn
		{"uatau", 6, "u4", 1}, // so do all messages up to the next question
		{"uuau", 10, "u1 a2 u3", 1},
		{"uasuau", 14, "s2 u3 a4 u5", 1}, // a system message is never dropped
		{"uaua", 6, "u2 a3", 1},          // the last turn, with its answer
		{"uaua", 5, "", 0},
		{"a", 1, "", 0},
		{"s", 1, "", 0},
		{"", 0, "", 0},
	} {
		messages := talk(c.roles)
		measured := ""
		left, gone, err := Raw().Fit(messages, Options{}, c.limit, func(r Rendered) int {
			measured = r.Text
			return len(r.Text)
		})
		if c.left == "" && c.roles != "" {
			if err == nil || !strings.Contains(err.Error(), "shorten") {
				t.Errorf("%s in %d: %v, %d, %v; want an error", c.roles, c.limit, left, gone, err)
			}
			continue
		}
		var got []string
		for _, m := range left {
			got = append(got, m.Content)
		}
		if err != nil || strings.Join(got, " ") != c.left || gone != c.gone {
			t.Errorf("%s in %d: %v, %d, %v; want %s, %d", c.roles, c.limit, got, gone, err, c.left, c.gone)
		}
		if r, err := Raw().Render(left, Options{}); err != nil || r.Text != measured {
			t.Errorf("%s in %d: measured last %q, returned %q, %v", c.roles, c.limit, measured, r.Text, err)
		}
		for i, m := range talk(c.roles) {
			if !reflect.DeepEqual(messages[i], m) {
				t.Errorf("%s in %d: message %d was changed to %v", c.roles, c.limit, i, messages[i])
			}
		}
	}
}

func TestFitRefused(t *testing.T) {
	f, err := ByName("gemma")
	expect.OK(t, err)
	_, _, err = f.Fit(talk("su"), Options{}, 100, func(Rendered) int { return 0 })
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Role != "system" {
		t.Errorf("error %v, want a RefusedError", err)
	}
}
