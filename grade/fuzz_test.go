package grade

import (
	"bufio"
	"strings"
	"testing"

	"restyle/internal/hostile"
)

// FuzzFacts checks that a verdict contains no more than its lines do, whatever a side writes, and that the first line
// that is not a fact ends the hearing.
func FuzzFacts(f *testing.F) {
	f.Add("{\"process\": 3}\n{\"parses\": true}\n{\"printed\": \"4\\n\"}\n{\"right\": true}\n{\"ended\": true}\n")
	f.Add("{\"process\": 3}\n{\"left\": false}\n")
	f.Add("nonsense\n")
	f.Add("{\"right\": 1}\n[]\n{\"Right\":true}")
	f.Add(`{"error": "` + strings.Repeat("x", longest) + "\"}\n")
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &side{lines: bufio.NewReaderSize(strings.NewReader(text), longest)}
		var heard facts
		var err error
		n := 0
		hostile.Within(t, hostile.Linear(len(text)), func() {
			for err == nil && !heard.Ended {
				if err = s.hear(&heard); err == nil {
					n++
				}
			}
		})
		if lines := strings.Count(text, "\n"); n > lines {
			t.Errorf("%d facts in %d lines", n, lines)
		}
		if said := strings.ToLower(text); heard.Right && !strings.Contains(said, "right") && !strings.Contains(said, `\u`) {
			t.Errorf("right, of %q", text)
		}
		if len(heard.Printed) > 3*len(text) || len(heard.Error) > 3*len(text) { // a byte that is not UTF-8 becomes three
			t.Errorf("%d bytes from %d", len(heard.Printed)+len(heard.Error), len(text))
		}
	})
}

// TestTail_KeepsTheEnd writes pieces of different lengths.
func TestTail_KeepsTheEnd(t *testing.T) {
	var kept tail
	all := ""
	for i, n := range []int{1, 4 << 10, 1, 4<<10 - 1, 1, 9000, 0, 5, 4 << 10, 4<<10 + 1} {
		piece := strings.Repeat(string(rune('a'+i)), n) + "."
		all += piece
		if written, err := kept.Write([]byte(piece)); written != n+1 || err != nil {
			t.Errorf("%d bytes of %d written, %v", written, n+1, err)
		}
		if got := kept.String(); got != all[max(len(all)-4<<10, 0):] {
			t.Errorf("after %d bytes: %d are kept", len(all), len(got))
		}
	}
}
