package training

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/internal/disk"
	"restyle/tokenizer"
)

// LoadText makes a set of a file of plain text in UTF-8, for training from nothing. The text is encoded as a whole, behind
// the token that begins a sequence if the tokenizer puts one in front of a text; no special token is recognised in it.
// It is divided into chunks of e.Seq tokens, the last of which may be shorter. A chunk begins with the last token of the one
// before, from which its second one is predicted: so every token of the text is learned exactly once, but for the
// very first. Of e only Tokenizer and Seq are used.
func LoadText(ctx context.Context, path string, e *Encoder) (*Set, error) {
	if e.Seq < 2 {
		return nil, fmt.Errorf("training: chunks of %d tokens (--seq): the shortest from which anything is learned has 2", e.Seq)
	}
	text, err := readText(path)
	if err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	sum := sha256.Sum256([]byte(text))
	s := &Set{Name: filepath.Base(path), Revision: hex.EncodeToString(sum[:]), Format: "plain text"}
	ids := beginning(e.Tokenizer).IDs
	ids = append(ids, e.Tokenizer.Encode(strings.TrimPrefix(text, "\ufeff"), tokenizer.EncodeOptions{}).IDs...)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("training: %s: %w", path, err)
	}
	for from := 0; from+1 < len(ids); from += e.Seq - 1 {
		to := min(from+e.Seq, len(ids))
		labels := slices.Clone(ids[from:to])
		labels[0] = Ignore
		s.Examples = append(s.Examples, Example{IDs: ids[from:to:to], Labels: labels, Row: s.Rows})
		s.Rows++
	}
	if s.Rows == 0 {
		return nil, fmt.Errorf("training: %s: a text of %d tokens: nothing is left to train on", path, len(ids))
	}
	s.count()
	return s, nil
}

func readText(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > math.MaxInt32 {
		return "", fmt.Errorf("%s has %d bytes, more than the 2 GiB that are encoded as a whole: train on a part", path, info.Size())
	}
	b, err := disk.ReadInput(path)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", errors.New(path + " is not valid UTF-8: convert it")
	}
	return string(b), nil
}
