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
