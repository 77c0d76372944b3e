package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/internal/cli"
	"restyle/model"
	"restyle/tensor"
)

func TestQuantize(t *testing.T) {
	out := filepath.Join(t.TempDir(), "int4")
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"starter", out, "--text", "4"}, &stdout, &stderr); code != cli.Done {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"model.embed_tokens.weight", "INT8", "model.layers.5.mlp.down_proj.weight", "INT4Z",
		"13 other parameters", "held-out questions"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout.String())
		}
	}
	c, err := hf.OpenModel(out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if want := (model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}); c.Quantization != want {
		t.Errorf("the model has %+v: want %+v", c.Quantization, want)
	}
	stderr.Reset()
	again := filepath.Join(t.TempDir(), "again")
	if code := run(context.Background(), []string{out, again}, &stdout, &stderr); code != cli.Failed ||
		!strings.Contains(stderr.String(), "is quantized already") {
		t.Errorf("a quantized model, quantized again: exit code %d: %s", code, stderr.String())
	}
}

func TestUsage(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"1 paths":              {"starter"},
		"must be int8 or int4": {"starter", "x", "--weights", "int5"},
		"gptq or nearest":      {"starter", "x", "--rounding", "up"},
		"is not empty":         {"starter", full},
		"at least 1":           {"starter", "x", "--text", "0"},
	} {
		var stderr bytes.Buffer
		if code := run(context.Background(), args, &stderr, &stderr); code != cli.Usage ||
			!strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d: %s", args, code, stderr.String())
		}
	}
}

// TestStopped checks that an interrupted run writes nothing.
func TestStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	out := filepath.Join(t.TempDir(), "out")
	var stderr bytes.Buffer
	if code := run(ctx, []string{"starter", out}, &stderr, &stderr); code != cli.Stopped {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an interrupted run made the directory")
	}
}
