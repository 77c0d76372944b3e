// Package checkpoint stores the state of a training run in directories that are either complete or absent. If a run is
// killed at any moment, or the machine loses power, a checkpoint's directory has all of its files as they were written,
// or does not exist. A file that is damaged later is detected before anything is read from it.
//
// A directory is filled under another name and put in place by one rename:
//
//	.writing-step-000300/     filled, every file hashed and synced, SHA256SUMS written, the directory synced
//	step-000300/              renamed, the parent synced
//	.replaced-step-000300/    the previous directory of that name, until the new one has the name
//	.removed-step-000300/     being deleted
//
// sha256sum -c reads SHA256SUMS, so a checkpoint can be verified without restyle.
//
// Write, Replace, Keep and Latest clean up after killed runs, so only one process may call them in a directory at a
// time: the one that holds [Lock]. Anyone may call Open.
package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"restyle/internal/disk"
)

// ErrNone means that there is no checkpoint to resume from.
var ErrNone = errors.New("no checkpoint")

// Found is the result of Latest.
type Found struct {
	Dir     string // the newest checkpoint whose checksums all match
	Step    int
	Skipped []Skipped // newer ones that are damaged, the newest first
}

// Skipped is a checkpoint that cannot be used. Latest leaves it in place.
type Skipped struct {
	Dir string
	Why error // the damage; it names Dir
}

// Dir returns the directory of the checkpoint of a step: <root>/step-NNNNNN, with at least six digits.
func Dir(root string, step int) string { return filepath.Join(root, stepName(step)) }

// Write writes the checkpoint of a step in root, usually <out>/checkpoints, which it creates if it is missing. fill
// writes the files into dir; it need not sync them. If the step has a checkpoint already, Write replaces it once the
// new one is complete.
//
// On an error, the existing checkpoints are untouched. If the disk is full, the error says how much was written. A
// failed fsync is final: Write does not repeat it on the same files, because the kernel may have marked pages as clean
// that it could not write (Rebello et al., Can Applications Recover from fsync Failures?, 2020).
func Write(root string, step int, fill func(dir string) error) error {
	if step < 0 {
		return fmt.Errorf("checkpoint of step %d: must be 0 or more", step)
	}
	if err := Tidy(root); err != nil {
		return err
	}
	return Replace(Dir(root, step), fill)
}

// Latest returns the newest checkpoint in root whose checksums all match. It skips newer ones that are damaged and
// names them, and deletes none. If there is no checkpoint, the error wraps [ErrNone], and both the error and Found name
// what was skipped. Latest deletes what killed runs left.
func Latest(root string) (Found, error) {
	if err := Tidy(root); err != nil {
		return Found{}, err
	}
	steps, err := Steps(root)
	if err != nil {
		return Found{}, err
	}
	var found Found
	none := fmt.Errorf("%w in %s", ErrNone, root)
	for _, step := range steps {
		dir := Dir(root, step)
		err := Open(dir)
		if err == nil {
			found.Dir, found.Step = dir, step
			return found, nil
		}
		found.Skipped = append(found.Skipped, Skipped{dir, err})
		none = fmt.Errorf("%w; %w", none, err)
	}
	return found, none
}

// Keep deletes all checkpoints in root except the newest n, which is at least 1, and returns the deleted directories.
// It counts those that look complete, judging by the names of their files; it leaves the others for a person to check.
// Before it deletes anything, it verifies one of those that stay: if none of them is intact, the newest intact one
// stays as well. An interrupted deletion leaves no partial checkpoint under a checkpoint's name.
func Keep(root string, n int) (removed []string, err error) {
	if n < 1 {
		return nil, fmt.Errorf("checkpoints to keep in %s: %d: must be at least 1", root, n)
	}
	if err := Tidy(root); err != nil {
		return nil, err
	}
	steps, err := Steps(root)
	if err != nil {
		return nil, err
	}
	steps = slices.DeleteFunc(steps, func(step int) bool {
		_, err := readSums(Dir(root, step))
		return err != nil
	})
	if len(steps) <= n {
		return nil, nil
	}
	intact := slices.IndexFunc(steps, func(step int) bool { return Open(Dir(root, step)) == nil })
	if intact < 0 {
		return nil, fmt.Errorf("%w in %s is intact: nothing was deleted", ErrNone, root)
	}
	for i, step := range steps[n:] {
		if n+i == intact {
			continue
		}
		dir := Dir(root, step)
		if err := Remove(dir); err != nil {
			return removed, err
		}
		removed = append(removed, dir)
	}
	return removed, nil
}

func stepName(step int) string { return fmt.Sprintf("step-%06d", step) }

// Steps returns the steps that have a checkpoint in root, intact or not, the newest first.
func Steps(root string) ([]int, error) {
	entries, err := disk.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	var steps []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "step-")
		// Accept only the spelling that Write uses: two names must not mean the same step.
		if step, err := strconv.Atoi(digits); ok && err == nil && step >= 0 && stepName(step) == e.Name() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	slices.Reverse(steps)
	return steps, nil
}
