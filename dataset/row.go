package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"unicode/utf8"
)

// Row is one task of a source: an instruction, the data that it refers to, and the answer. A null cell is the empty
// string. All three are valid UTF-8.
type Row struct {
	Instruction string
	Input       string
	Output      string
	Index       int // in the source, from 0, counted over all its files
}

// Rewritten is one row of gen's output. The last key has the same name for every style, so that one reader serves them
// all.
type Rewritten struct {
	Instruction             string `json:"instruction" parquet:"instruction"`
	Input                   string `json:"input" parquet:"input"`
	OutputOriginal          string `json:"output_original" parquet:"output_original"`
	OutputPassiveAggressive string `json:"output_passive_aggressive" parquet:"output_passive_aggressive"`
}

// The keys of the two answers of a Rewritten.
const originalOutput, rewrittenOutput = "output_original", "output_passive_aggressive"

// RewrittenColumns are the keys of Rewritten in the order of its fields.
var RewrittenColumns = [...]string{"instruction", "input", originalOutput, rewrittenOutput}

func (r Rewritten) fields() []string {
	return []string{r.Instruction, r.Input, r.OutputOriginal, r.OutputPassiveAggressive}
}

// SHA256 returns the hex digest that binds a certificate to the row. It is the hash of each field in order: its length
// in bytes (big-endian, 64 bits), then the bytes. So no two different rows have the same encoding.
func (r Rewritten) SHA256() string {
	h := sha256.New()
	for _, f := range r.fields() {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(f)))
		h.Write(n[:])
		h.Write([]byte(f))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxField is the largest field of a Rewritten in bytes. Four of them are smaller than maxRecord even if every byte is
// escaped as \u00XX.
const maxField = 512 << 10

// Check returns an error if the row could not be read back: every field must be valid UTF-8 of at most 512 KiB.
func (r Rewritten) Check() error {
	for i, f := range r.fields() {
		if !utf8.ValidString(f) {
			return fmt.Errorf("%s is not valid UTF-8", RewrittenColumns[i])
		}
		if len(f) > maxField {
			return fmt.Errorf("%s has %d bytes: at most %d are sure to be read back", RewrittenColumns[i], len(f), maxField)
		}
	}
	return nil
}
