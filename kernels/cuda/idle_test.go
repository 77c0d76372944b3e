package cuda

import (
	"bytes"
	"testing"
)

// TestIdle_AnswersEveryCall checks that the idle GPU answers every call, with a different address for each allocation,
// and zeros in it.
func TestIdle_AnswersEveryCall(t *testing.T) {
	want := Properties{Name: "idle", Major: 9, SMs: 132, Memory: 1 << 37}
	g, err := OpenIdle(want)
	if err != nil || g.Properties != want {
		t.Fatalf("%+v, %v", g, err)
	}
	a, err := g.Alloc(1000)
	if err != nil || a == 0 || a%256 != 0 {
		t.Error(a, err)
	}
	if b, err := g.Alloc(1 << 40); err != nil || b < a+1000 {
		t.Error(b, err)
	}
	if free, total, err := g.Free(); err != nil || free < 1<<40 || total < free {
		t.Error(free, total, err)
	}
	got := bytes.Repeat([]byte{7}, 100)
	for _, err := range []error{g.Upload(a, got), g.Fill(a, 1, 100), g.Copy(a, a, 10), g.Download(got, a), g.Sync(),
		g.Release(a), g.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(got, make([]byte, 100)) {
		t.Errorf("% x", got)
	}
}
