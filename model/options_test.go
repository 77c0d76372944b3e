package model

import (
	"strings"
	"testing"
)

func TestParseRecompute(t *testing.T) {
	for s, want := range map[string]Recompute{
		"none": RecomputeNone, "attention": RecomputeAttention, "layer": RecomputeLayer,
	} {
		if got, err := ParseRecompute(s); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", s, got, err, want)
		}
	}
	if _, err := ParseRecompute("all"); err == nil || !strings.Contains(err.Error(), `"all"`) {
		t.Errorf("all: got error %v, want one that names it", err)
	}
}
