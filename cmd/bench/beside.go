package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// A besideStep describes a step to another program, as one JSON object on its standard input.
type besideStep struct {
	Config     json.RawMessage `json:"config"`     // the model's config.json
	Batch      int             `json:"batch"`      // sequences per pass
	Seq        int             `json:"seq"`        // tokens per sequence
	Accumulate int             `json:"accumulate"` // passes per step
	Trained    []string        `json:"trained"`    // patterns of the trainable parameters; none: all are trainable
	DType      string          `json:"dtype"`      // bf16 or fp32
	Device     string          `json:"device"`     // cpu, cuda:0 and so on
	Warmup     int             `json:"warmup"`     // steps before the timed ones
	Steps      int             `json:"steps"`      // minimum number of timed steps
	Lasting    float64         `json:"lasting"`    // minimum seconds of all timed steps
}

// beside has another program time a step. The result is the last line of that program's standard output, as JSON.
// Spaces separate the words of command.
func beside(ctx context.Context, command string, step besideStep) (r stepResult, err error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return r, fmt.Errorf("--beside %q: must name a command", command)
	}
	input, err := json.Marshal(step)
	if err != nil {
		return r, err
	}
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &out, &errs
	if err := c.Run(); err != nil {
		return r, fmt.Errorf("%s: %w: %s", command, err, cmp.Or(endOf(errs.String()), "it printed no error"))
	}
	line := endOf(out.String())
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("%s: its last line %.200q is not the JSON of a result: %w", command, line, err)
	}
	if len(r.Seconds) == 0 || r.Mode == "" {
		return r, fmt.Errorf("%s: its result %.200q has no mode, or no seconds", command, line)
	}
	for _, s := range r.Seconds {
		if !(s > 0) {
			return r, fmt.Errorf("%s: a step of %v seconds", command, s)
		}
	}
	return r, nil
}

// endOf returns the last line of a text.
func endOf(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
