package hostile

import "testing"

func TestFound(t *testing.T) {
	for name, text := range Texts {
		if Found("before "+text+" after", false) == "" {
			t.Errorf("%s is not seen", name)
		}
		if Found("before "+text+" after", true) == "" && name != "back" && name != "color" {
			t.Errorf("%s is not seen on a terminal", name)
		}
	}
	if found := Found("plain é 漢 🙂 \ufffd\n\ttext", false); found != "" {
		t.Error(found)
	}
	if found := Found("\x1b[?7lloading\x1b[J\x1b[?7h\r", true); found != "" {
		t.Error(found)
	}
}

var kept []byte

// TestWithin checks the rule by which fuzz targets judge parsers: 64 bytes for each byte, and 1 MiB.
func TestWithin(t *testing.T) {
	for size, allowed := range map[int]bool{1 << 20: true, 1<<20 + 50_000: true, 2<<20 + 64*1000: false} {
		r := &recorder{TB: t}
		Within(r, Linear(1000), func() { kept = make([]byte, size) })
		if r.failed == allowed {
			t.Errorf("%d bytes for 1000: failed %v", size, r.failed)
		}
	}
	once := false
	Within(t, 1<<20, func() {
		if !once {
			kept = make([]byte, 2<<20)
		}
		once = true
	})
}

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
