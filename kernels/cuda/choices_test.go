package cuda

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/hostile"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestAlgorithms_FoundByText checks that an algorithm is found again by its text. Invalid text, an unusable algorithm
// and one that fails must give errors that do not stick.
func TestAlgorithms_FoundByText(t *testing.T) {
	t.Setenv("RESTYLE_CACHE", cudatest.Dir())
	t.Setenv("STANDIN_PRODUCTS", "100,x90")
	g, _ := openEmulated(t)
	to, err := g.Alloc(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	b, err := OpenEmulatedBLAS(g)
	if err != nil {
		t.Fatal(err)
	}
	s := Shape{M: 1, N: 1, K: 1, LDA: 1, LDB: 1, LDC: 1, Type: tensor.F32, Result: tensor.F32, AlignA: 16, AlignB: 16,
		AlignC: 16}
	p, err := b.Plan(s)
	if err != nil || p.Algorithms != 2 {
		t.Fatal(p, err)
	}
	good, bad := p.Algorithm(0), p.Algorithm(1)
	if len(good) != 128 || good == bad {
		t.Errorf("%s and %s", good, bad)
	}
	try := func(i int) error { return p.Try(i, to, to, to, 0, to, 256) }
	if err := try(0); err != nil {
		t.Error(err)
	}
	for i, c := range []struct {
		algorithm, says string
	}{{bad, ""}, {"", "must be 64 bytes"}, {good[:126], "must be 64 bytes"}, {good + "00", "must be 64 bytes"},
		{"x" + good[1:], "must be 64 bytes"},
		{strings.Repeat("ab", 64), "use algorithm abab"}} {
		err := p.Use(c.algorithm, 0)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d: %v", i, err)
		}
		if err := try(0); err == nil || !strings.Contains(err.Error(), "CUBLAS_STATUS_EXECUTION_FAILED") {
			t.Errorf("%d: the plan's first is not the one that was used last: %v", i, err)
		}
	}
	if err := p.Use(good, 0); err != nil || try(0) != nil {
		t.Error(err, try(0))
	}
	if err := g.Err(); err != nil {
		t.Errorf("it sticks: %v", err)
	}
	p.Discard()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzChoices reads any bytes as a file of choices: either they are valid, or there are no choices.
func FuzzChoices(f *testing.F) {
	for _, text := range []string{"", "null", "{}", `{"a": ""}`, `{"a": "00"}`, `{"a": 1}`, `[]`, `{"a": null}`} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	b := &BLAS{Version: 1, gpu: &GPU{}}
	f.Fuzz(func(t *testing.T, file []byte, whole bool) {
		if whole {
			file = sealed(file)
		}
		cache := Cache{cudatest.Cache(t)}
		if err := os.WriteFile(filepath.Join(cache.Dir, choicesName(b)), file, 0o600); err != nil {
			t.Fatal(err)
		}
		var c Choices
		hostile.Within(t, hostile.Linear(len(file)), func() { c = cache.Choices(b) })
		c["another"] = "choice"
		cache.KeepChoices(b, Choices{"more": ""})
		after := cache.Choices(b)
		if len(after) != len(c) || after["more"] != "" {
			if _, there := c["more"]; !there {
				t.Errorf("%q becomes %q", c, after)
			}
		}
		if files, err := filepath.Glob(filepath.Join(cache.Dir, "*")); err != nil || len(files) != 1 {
			t.Errorf("%v, %v", files, err)
		}
	})
}
