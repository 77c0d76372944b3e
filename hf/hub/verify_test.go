package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

// flip changes a bit in the middle of a file, and keeps its size.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	data[len(data)/2] ^= 4
	expect.OK(t, os.WriteFile(path, data, 0o666))
}

// TestDamagedCache_IsDetected checks that a flipped bit in a cached file is detected, whoever downloaded the file and
// whatever kind of hash it has. Online, the file is fetched again; offline, it is an error.
func TestDamagedCache_IsDetected(t *testing.T) {
	for _, by := range []string{"us", "Python", "Python without trees"} {
		for _, name := range []string{"README.md", big} {
			inBubble(t, func(t *testing.T, s *fakeHub) {
				h := s.open()
				if by == "us" {
					if _, err := s.get(t.Context(), h, name); err != nil {
						t.Fatal(err)
					}
				} else {
					pythonCache(t, s, by == "Python")
				}
				offline := *h
				offline.Offline = true
				local, err := s.get(t.Context(), &offline, name)
				if err != nil {
					t.Fatalf("%s, %s: %v", by, name, err)
				}
				flip(t, local)
				_, err = s.get(t.Context(), &offline, name)
				if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "the hash of "+local+" is ") ||
					!strings.Contains(err.Error(), "listing has "+s.etag(name)+", and offline (HF_HUB_OFFLINE)") {
					t.Errorf("%s, %s: offline: %v", by, name, err)
				}
				if _, err := s.get(t.Context(), h, name); err != nil {
					t.Errorf("%s, %s: online: %v", by, name, err)
				}
				if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, s.files[name]) {
					t.Errorf("%s, %s: the file stays damaged, %v", by, name, err)
				}
				if got, err := s.get(t.Context(), &offline, name); err != nil || got != local {
					t.Errorf("%s, %s: afterwards: %q, %v", by, name, got, err)
				}
				// If the hub sends wrong bytes as well, the file stays damaged, and the error reports both.
				flip(t, local)
				s.files[name] = append([]byte{'x'}, s.files[name][1:]...)
				_, err = s.get(t.Context(), h, name)
				if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "downloading it again failed: ") {
					t.Errorf("%s, %s: a hub with another file: %v", by, name, err)
				}
			})
		}
	}
}

// TestVerifiedOnce checks that a verified file is hashed again only if its size, times or inode differ from those in
// the record. Damage that goes undetected shows that the file was not hashed.
func TestVerifiedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeHub) {
		h := s.open()
		local, err := s.get(t.Context(), h, big)
		expect.OK(t, err)
		h.Offline = true
		record := filepath.Join(s.cache, "datasets--owner--name/verified", s.etag(big))
		fetch := func() (string, error) {
			_, err := s.get(t.Context(), h, big)
			data, _ := os.ReadFile(record)
			return string(data), err
		}
		// The test's clock is in the past, so every file counts as just changed.
		if state, err := fetch(); err != nil || state != "" {
			t.Errorf("a file that was just written has the record %q, %v", state, err)
		}
		defer func(d time.Duration) { unsettled = d }(unsettled)
		unsettled = -1 << 63
		state, err := fetch()
		if err != nil || state == "" {
			t.Fatalf("record %q, %v", state, err)
		}
		// If the size or any other number of the record is wrong, the file is hashed and recorded again.
		fields := strings.Fields(state)
		if len(fields) != 4 {
			t.Fatalf("record %q", state)
		}
		for i := range fields {
			other := append([]string{}, fields...)
			other[i] += "1"
			write := func() {
				expect.OK(t, os.WriteFile(record, []byte(strings.Join(other, " ")+"\n"), 0o666))
			}
			write()
			if got, err := fetch(); err != nil || got != state {
				t.Errorf("record %q became %q, want %q; %v", other, got, state, err)
			}
		}
		os.Remove(record)
		flip(t, local)
		if got, err := fetch(); !errors.Is(err, errDamaged) || got != "" {
			t.Errorf("a damaged file: record %q, %v", got, err)
		}
		// This is a record of the damaged file, as if the file had been intact when it was hashed.
		damaged, _, err := stateOf(local)
		if err != nil || os.WriteFile(record, []byte(damaged), 0o666) != nil {
			t.Fatal(err)
		}
		if _, err := fetch(); err != nil {
			t.Errorf("hashed again: %v", err)
		}
		expect.OK(t, os.Chtimes(local, time.Time{}, time.Unix(1e9, 1)))
		if _, err := fetch(); !errors.Is(err, errDamaged) {
			t.Errorf("with another time: %v", err)
		}
		if line, changed, err := stateOf(local); err != nil || changed.Unix() == 1e9 ||
			strings.Count(line, "1000000000000000001") != 1 {
			t.Errorf("the time of the last change is set back: %q %v, %v", line, changed, err)
		}
		// A cache in which nothing can be recorded still works.
		expect.OK(t, os.WriteFile(local, s.files[big], 0o666))
		os.RemoveAll(filepath.Dir(record))
		expect.OK(t, os.WriteFile(filepath.Dir(record), nil, 0o666))
		if _, err := fetch(); err != nil {
			t.Errorf("without a place for records: %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("enough"))
		if _, err := h.Fetch(ctx, Listing{s.ref(), commit1, []File{{big, int64(len(s.files[big])), commit2, s.etag(big)}}},
			big); err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("interrupted: %v", err)
		}
	})
}
