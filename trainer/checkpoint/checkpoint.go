// Package checkpoint keeps directories that are complete or absent. A run that is killed at any moment, or a machine
// that loses power, leaves under a checkpoint's name all of its files as they were written, or nothing of that name; and
// a file that is damaged later is found before anything is read from it.
//
// A directory is filled under another name and put in place by one rename:
//
//	.writing-step-000300/     filled, every file hashed and synced, SHA256SUMS written, the directory synced
//	step-000300/              renamed, the parent synced
//	.replaced-step-000300/    what had the name before, until the new one has it
//	.removed-step-000300/     on its way out
//
// SHA256SUMS is what sha256sum -c reads, so no program of ours is needed to check a checkpoint.
//
// Write, Replace, Keep and Latest tidy up behind killed runs and so must not run at the same time in one place: the run
// that calls them holds [Lock]. Open may be called by anyone.
package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNone means that there is no checkpoint to go on from.
var ErrNone = errors.New("no checkpoint")

// Found is what Latest found.
type Found struct {
	Dir     string // of the newest checkpoint whose every checksum holds
	Step    int
	Skipped []Skipped // newer ones that are damaged, the newest first
}

// Skipped is a checkpoint that cannot be used. It stays where it is.
type Skipped struct {
	Dir string
	Why error // the damage; it names Dir
}

// Dir is where the checkpoint of a step is: <root>/step-NNNNNN, with at least six digits.
func Dir(root string, step int) string { return filepath.Join(root, stepName(step)) }

// Write makes the checkpoint of a step in root, usually <out>/checkpoints, which is made if it is missing. fill writes
// the files into the directory that it is given; it need not sync them. If the step has a checkpoint already, that one
// is replaced when the new one is complete.
//
// On an error, which says how much was written where the disk is full, the checkpoints that were there are untouched.
// A failed fsync is final: the attempt is dropped and not repeated on the same files, because the kernel may have marked
// as clean what it could not write (Rebello et al., Can Applications Recover from fsync Failures?, 2020).
func Write(root string, step int, fill func(dir string) error) error {
	if step < 0 {
		return fmt.Errorf("checkpoint of step %d: a step is 0 or more", step)
	}
	if err := Tidy(root); err != nil {
		return err
	}
	return Replace(Dir(root, step), fill)
}

// Latest returns the newest checkpoint in root whose every checksum holds. Damaged ones that are newer are skipped and
// named, never deleted. Where there is none the error wraps [ErrNone] and names what was skipped, as does the Found
// beside it. What killed runs left is removed.
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

// Keep removes the checkpoints in root but the newest n, which is at least 1, and returns the directories removed. It
// counts those that look whole, which is all that can be told without reading every byte; one that does not is left for
// a person to look at. Before anything goes, one of those that stay is verified: where none of them is sound, the newest
// sound one stays as well. A removal that is interrupted leaves no half checkpoint under a checkpoint's name.
func Keep(root string, n int) (removed []string, err error) {
	if n < 1 {
		return nil, fmt.Errorf("checkpoints to keep in %s: %d: at least 1 has to stay", root, n)
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
	sound := slices.IndexFunc(steps, func(step int) bool { return Open(Dir(root, step)) == nil })
	if sound < 0 {
		return nil, fmt.Errorf("%w in %s is sound: nothing was removed", ErrNone, root)
	}
	for i, step := range steps[n:] {
		if n+i == sound {
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

// Steps returns the steps that have a checkpoint in root, whole or not, the newest first.
func Steps(root string) ([]int, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	var steps []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "step-")
		// Only the one spelling of a number that Write uses: two names must not stand for one step.
		if step, err := strconv.Atoi(digits); ok && err == nil && step >= 0 && stepName(step) == e.Name() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	slices.Reverse(steps)
	return steps, nil
}
