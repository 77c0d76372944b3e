package teacher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"restyle/voice"
)

// Builtin is the teacher that needs no model. It composes prose from the style's phrase bank and from facts that it
// reads off the question and the code, neither of which it understands. An answer in words stays as it is, in the
// middle. With Builtin, everything else can be run, tested and trained on any machine. Its certificates name it.
type Builtin struct{}

// Name returns "builtin".
func (Builtin) Name() string { return "builtin" }

// A composition is everything that an answer of Builtin depends on.
type composition struct {
	Style      string           `json:"style_sha256"`
	Facts      voice.Facts      `json:"facts"`
	Assignment voice.Assignment `json:"deal"`
	Comments   string           `json:"comments,omitempty"` // remarks on lines of code
}

func compositionOf(p *Prompt) composition {
	c := composition{
		Style: p.Style.SHA256,
		Facts: factsOf(p),
		Assignment: voice.Assignment{Seed: p.Seed, Opener: p.Assignment.Opener, Skeleton: p.Assignment.Skeleton,
			Device: p.Assignment.Device.Name},
	}
	if p.Comments {
		c.Comments = lineRemarks(p)
	}
	return c
}

// Request returns the composition as JSON, from which the journal's key and the certificate's hash are made.
func (Builtin) Request(p *Prompt) Request {
	body, err := json.Marshal(compositionOf(p))
	if err != nil {
		panic(err) // plain strings and numbers
	}
	sum := sha256.Sum256(append([]byte("builtin\n"), body...))
	return Request{Body: body, Keys: []string{hex.EncodeToString(sum[:])}}
}

// Ask composes the answer. It refuses the row if the style's phrases make no answer that is in the voice.
func (Builtin) Ask(_ context.Context, p *Prompt, r Request) (Answer, string, error) {
	c := compositionOf(p)
	text, err := p.Style.Compose(c.Facts, c.Assignment)
	if errors.Is(err, voice.ErrNoBank) {
		return Answer{}, "", err
	}
	if err != nil {
		return Answer{}, r.Keys[0], &Refused{Reason: err.Error()}
	}
	var out strings.Builder
	if c.Comments != "" {
		out.WriteString("<comments>\n" + c.Comments + "</comments>\n")
	}
	out.WriteString("<rewrite>\n" + text + "\n</rewrite>")
	return Answer{Text: out.String(), Finish: "stop", Model: "builtin"}, r.Keys[0], nil
}

// lineRemarks returns remarks on one or two lines of the first block of code, in the form that the prompt asks for.
func lineRemarks(p *Prompt) string {
	lines := remarkLines(p.Parts.Blocks[0])
	var out strings.Builder
	var taken []string
	var used []int
	for i := range uint64(2) {
		if len(lines) == 0 {
			break
		}
		seed := mix(p.Seed, 0xc0de, i)
		at := lines[seed%uint64(len(lines))]
		if slices.Contains(used, at.number) {
			continue
		}
		var f voice.Facts
		readCode(&f, at.text)
		if remark := p.Style.Comment(f, seed, taken); remark != "" {
			fmt.Fprintf(&out, "L%d: %s\n", at.number, remark)
			taken, used = append(taken, remark), append(used, at.number)
		}
	}
	return out.String()
}
