package training

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/internal/disk"
	"restyle/tokenizer"
)

// LoadText loads a file of plain text in UTF-8, for training from scratch. It encodes the whole text at once, after the
// token that starts a sequence if the tokenizer has one, and recognizes no special tokens in it. The examples are
// chunks of e.Seq tokens; the last one may be shorter. A chunk starts with the last token of the chunk before, which
// predicts its second token. So every token of the text but the very first is a target exactly once. LoadText uses only
// e.Tokenizer and e.Seq.
func LoadText(ctx context.Context, path string, e *Encoder) (*Set, error) {
	if err := e.checkSeq(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	text, err := readText(path)
	if err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	if err := e.Tokenizer.CheckText(strings.TrimPrefix(text, "\ufeff")); err != nil {
		return nil, fmt.Errorf("training: %s: %w", path, err)
	}
	sum := sha256.Sum256([]byte(text))
	s := &Set{Name: filepath.Base(path), Revision: hex.EncodeToString(sum[:]), Format: "plain text"}
	ids := e.plain(strings.TrimPrefix(text, "\ufeff"))
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("training: %s: %w", path, err)
	}
	s.Examples = e.chunks(ids, func(chunk int) int { return chunk })
	if s.Rows = len(s.Examples); s.Rows == 0 {
		return nil, fmt.Errorf("training: %s: a text of %d tokens: nothing is left to train on", path, len(ids))
	}
	s.count()
	return s, nil
}

// plain encodes plain text, after the token that starts a sequence. It recognizes no special tokens in it.
func (e *Encoder) plain(text string) []int32 {
	return append(beginning(e.Tokenizer).IDs, e.Tokenizer.Encode(text, tokenizer.EncodeOptions{}).IDs...)
}

// chunks cuts plain text as LoadText says. row returns the row of each chunk.
func (e *Encoder) chunks(ids []int32, row func(chunk int) int) (list []Example) {
	for from := 0; from+1 < len(ids); from += e.Seq - 1 {
		to := min(from+e.Seq, len(ids))
		labels := slices.Clone(ids[from:to])
		labels[0] = Ignore
		list = append(list, Example{IDs: ids[from:to:to], Labels: labels, Row: row(len(list))})
	}
	return list
}

// MaxText is the maximum size of a text in bytes, because a text is encoded as a whole.
const MaxText = math.MaxInt32

func readText(path string) (string, error) {
	b, err := disk.ReadInput(path, MaxText)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", errors.New(path + ": not valid UTF-8: convert it, or unpack it if it is compressed")
	}
	return string(b), nil
}
