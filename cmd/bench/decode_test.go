package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
)

func TestDecode(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(tinyConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		// 32 of the embedding, 64·32 of the head, 2·(3·32·32 + 3·48·32 + 2·32) of the layers, and 32 of the last norm.
		{"--fused all", `bf16, fused, after 5 tokens: .* GB/s of weights \(34\.4 KiB\), .*% of a copy's \d`},
		{"--dtype fp32 --fused none", `fp32, standard, after 5 tokens: .* GB/s of weights \(68\.8 KiB\), `},
	} {
		var out, errs strings.Builder
		args := append([]string{"decode", "--model", config, "--context", "5", "--tokens", "3", "--warmup", "1", "--device",
			"cpu"}, strings.Fields(c.args)...)
		if code := run(context.Background(), args, &out, &errs); code != cli.Done {
			t.Fatalf("%d: %s", code, errs.String())
		}
		if !regexp.MustCompile(c.want).MatchString(out.String()) {
			t.Errorf("%s: %s, not as %s", c.args, out.String(), c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--fused some", "--fused: "},
		{"--tokens 0", "--tokens 0"},
		{"--context -1", "--context -1"},
		{"--context 131072", "the model has 131072 positions"},
		{"--dtype f16", `--dtype "f16"`},
		{"--model nowhere", "--model: "},
	} {
		var out, errs strings.Builder
		if code := run(context.Background(), append([]string{"decode"}, strings.Fields(c.args)...), &out,
			&errs); code != cli.Usage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d, %s", c.args, code, errs.String())
		}
	}
}

// TestDecodeProfile checks that a profile tells products apart by their sizes and has every kernel of a token, and that
// a profiler can see the tokens.
func TestDecodeProfile(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(tinyConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	ranges := cudatest.UseRanges(t)
	var out, errs strings.Builder
	code := run(context.Background(), []string{"decode", "--model", config, "--context", "0", "--tokens", "2", "--warmup",
		"0", "--device", "emulated", "--sync"}, &out, &errs)
	if strings.Contains(errs.String(), cuda.ErrNoCompiler.Error()) {
		t.Skip(errs.String())
	}
	if code != cli.Done {
		t.Fatalf("%d: %s", code, errs.String())
	}
	for _, want := range []string{
		"matvec 1x64x32 ", "matvec 1x96x32 ", "matvec 1x32x32 ", "matvec 1x32x48 ", "attention_next ", "choose_next ",
	} {
		if !strings.Contains(out.String(), " "+want) {
			t.Errorf("no %s:\n%s", want, out.String())
		}
	}
	if all := ranges(); !slices.Equal(slices.Compact(all), []string{"token"}) || len(all) < 2 {
		t.Errorf("a profiler sees %q", all)
	}
}
