package trainer

import (
	"strings"
	"testing"

	"restyle/hf"
	"restyle/kernels"
)

// TestOpenRefuses checks that a pattern that matches nothing is an error before anything is allocated. Otherwise the
// run would train all parameters.
func TestOpenRefuses(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	if err != nil {
		t.Fatal(err)
	}
	s := tinySettings()
	s.Freeze = []string{"layer.0"}
	plan, err := NewPlan(s, learnable(4, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewJob(d, base, plan, JobOptions{Scratch: true}).Open(t.Context(), t.TempDir(), "")
	if err == nil || !strings.HasPrefix(err.Error(), `freeze "layer.0": matches no parameter`) || d.Allocated() > 0 {
		t.Errorf("%v, with %d bytes allocated", err, d.Allocated())
	}
}
