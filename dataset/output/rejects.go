package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/internal/disk"
)

// Rejects writes the rejected rows of a run to a file that appears at Commit. Its memory does not grow with the number
// of rows. It is not safe for concurrent use.
type Rejects struct {
	file    *pending // nil after Commit or Discard
	buffer  *bufio.Writer
	encoder *json.Encoder
	counts  map[string]int // rows by check
}

// CreateRejects returns a Rejects for the file at path, which has a temporary name until Commit.
func CreateRejects(path string) (*Rejects, error) {
	file, err := createPending(path)
	if err != nil {
		return nil, err
	}
	r := &Rejects{file: file, buffer: bufio.NewWriter(file), counts: map[string]int{}}
	r.encoder = json.NewEncoder(r.buffer)
	r.encoder.SetEscapeHTML(false)
	return r, nil
}

// Write adds a row. After an error, Commit fails.
func (r *Rejects) Write(reject dataset.Reject) error {
	r.counts[reject.Check]++
	if err := r.encoder.Encode(reject); err != nil {
		return fmt.Errorf("output: rejects: %w", err)
	}
	return nil
}

// Commit puts the file in place. If nothing was rejected there will be no file: Commit renames one of an earlier run as
// [disk.MoveToBackup] does.
func (r *Rejects) Commit() (disk.Outcome, error) {
	err := r.buffer.Flush() // an error of Write again
	if err != nil {
		return disk.Outcome{}, errors.Join(fmt.Errorf("output: rejects: %w", err), r.Discard())
	}
	file := r.file
	r.file = nil
	if len(r.counts) > 0 {
		return file.commit()
	}
	var old disk.Outcome
	if old.Kept, err = disk.MoveToBackup(file.path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return old, errors.Join(err, file.discard())
}

// Discard removes the temporary file. After Commit or Discard it does nothing.
func (r *Rejects) Discard() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.discard()
}

// String returns the number of rows by check: "S1 12, A9 3", the checks in order of their names; "" if there are none.
func (r *Rejects) String() string {
	var parts []string
	for _, check := range slices.Sorted(maps.Keys(r.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", check, r.counts[check]))
	}
	return strings.Join(parts, ", ")
}
