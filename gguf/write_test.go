package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestWrite_ReadsBack writes one of everything and reads it.
func TestWrite_ReadsBack(t *testing.T) {
	for _, alignment := range []int{32, 8, 4096} {
		keys := append(slices.Clone(everyKey), KV{alignmentKey, uint32(alignment)})
		path := filepath.Join(t.TempDir(), "x.gguf")
		expect.OK(t, Write(path, keys, everyType()))
		f, err := Open(path)
		expect.OK(t, err)
		defer f.Close()
		if f.Version != 3 || f.Alignment != alignment || !slices.Equal(f.Paths(), []string{path}) {
			t.Errorf("version %d, alignment %d, %q", f.Version, f.Alignment, f.Paths())
		}
		if got := keysOf(f); !reflect.DeepEqual(got, keys) {
			t.Errorf("%v, want %v", got, keys)
		}
		var sums, file bytes.Buffer
		if err := f.WriteSums(&sums); err != nil {
			t.Error(err)
		}
		for i, want := range everyType() {
			got, ok := f.Tensor(want.Name)
			data, written := make([]byte, got.Bytes), new(bytes.Buffer)
			err := errors.Join(f.ReadAt(want.Name, data, 0), want.Write(written))
			if !ok || err != nil || !reflect.DeepEqual(got, f.Tensors()[i]) || got.Type != want.Type ||
				!slices.Equal(got.Dims, want.Dims) || !bytes.Equal(data, written.Bytes()) ||
				f.tensors[i].at%int64(alignment) != 0 {
				t.Errorf("%s: %v %v %v", want.Name, got, ok, err)
			}
		}
		file.WriteString(expect.Read(t, path))
		if want := fmt.Sprintf("%x  x.gguf\n", sha256.Sum256(file.Bytes())); sums.String() != want {
			t.Errorf("%q, want %q", sums.String(), want)
		}
		if !bytes.Equal(file.Bytes(), copied(t, f)) {
			t.Error("a copy has other bytes")
		}
	}
}

// TestWrite_Refuses tries to write what cannot be written, and checks that nothing is left of it.
func TestWrite_Refuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.gguf")
	expect.OK(t, os.WriteFile(path, []byte("old"), 0o666))
	put := func(n int, err error) Source {
		return Source{"t", F32, []int{3}, func(w io.Writer) error {
			w.Write(make([]byte, n))
			return err
		}}
	}
	for _, c := range []struct {
		want    string
		keys    []KV
		tensors []Source
	}{
		{`the key ""`, []KV{{"", true}}, nil},
		{`the key "a\xff"`, []KV{{"a\xff", true}}, nil},
		{`the key "a" is empty, too long, not UTF-8, or there twice`, []KV{{"a", true}, {"a", false}}, nil},
		{`the key "a": a value of type int cannot`, []KV{{"a", 1}}, nil},
		{`the key "a": a value of type <nil> cannot`, []KV{{"a", nil}}, nil},
		{`the key "a": a value of type [][]int32 cannot`, []KV{{"a", [][]int32{{1}}}}, nil},
		{`string 1 is "\xff": must be UTF-8`, []KV{{"a", []string{"x", "\xff"}}}, nil},
		{"general.alignment is 48", []KV{{alignmentKey, uint32(48)}}, nil},
		{"general.alignment is 32: must be a uint32", []KV{{alignmentKey, int32(32)}}, nil},
		{"has more than 63 bytes", nil, []Source{filled(strings.Repeat("n", 64), F32, 0, 1)}},
		{"there twice", nil, []Source{filled("t", F32, 0, 1), filled("t", F32, 0, 1)}},
		{"0 dimensions of F32", nil, []Source{filled("t", F32, 0)}},
		{"1 dimensions of Q2_K (type 10)", nil, []Source{filled("t", 10, 0, 256)}},
		{"impossible", nil, []Source{filled("t", F32, 0, 0)}},
		{"must be a multiple of 32", nil, []Source{filled("t", Q4_0, 0, 33)}},
		{"t: 11 bytes were written, but its type and dimensions need 12", nil, []Source{put(11, nil)}},
		{"t: 13 bytes were written", nil, []Source{put(13, nil)}},
		{"t: context canceled", nil, []Source{put(12, context.Canceled)}},
	} {
		expect.Error(t, Write(path, c.keys, c.tensors), "cannot write "+path+": ", c.want)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || expect.Read(t, path) != "old" {
			t.Errorf("%s: %v, %v", c.want, entries, err)
		}
	}
}
