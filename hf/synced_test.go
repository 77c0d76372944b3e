package hf

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/tensor"
)

// TestSaveIsSynced checks that all files are synced before the first rename, that the directory is synced after each
// rename, and that the file that completes the model is renamed last. Only a power cut would show an omission; SIGKILL
// cannot.
func TestSaveIsSynced(t *testing.T) {
	from, d, params := load(t, "testdata/tied", tensor.BF16)
	type event struct{ op, name string } // of a rename, the new name
	var events []event
	var temps map[string]string // by name, the name that its file had before
	var fail event
	save := func(most int64) error {
		events, temps = nil, map[string]string{}
		defer disk.Watch(func(op string, names ...string) error {
			e := event{op, filepath.Base(names[len(names)-1])}
			if op == "rename" {
				temps[e.name] = filepath.Base(names[0])
			}
			events = append(events, e)
			if e == fail || op == fail.op && fail.name == "" {
				return syscall.EIO
			}
			return nil
		})()
		return Save(t.TempDir(), from, d, params, SaveOptions{MaxShardBytes: most, Card: []byte("a card")})
	}
	for most, last := range map[int64]string{0: singleName, 2500: indexName} {
		expect.OK(t, save(most))
		if len(temps) < 4 || temps["README.md"] == "" || temps["config.json"] == "" || temps[last] == "" {
			t.Fatalf("renamed: %v", temps)
		}
		// All files are synced before the first rename: a power cut between two renames must not mix two models.
		first := slices.IndexFunc(events, func(e event) bool { return e.op == "rename" })
		var renamed []string
		for name, temp := range temps {
			at := slices.Index(events, event{"rename", name})
			written, synced := -1, -1
			for i, e := range events[:first] {
				switch e {
				case event{"write", temp}:
					written = i
				case event{"sync", temp}:
					synced = i
				}
			}
			if written < 0 || synced < written {
				t.Errorf("names are given from event %d on: %s is written last at %d and synced at %d", first, name, written,
					synced)
			}
			if at+1 == len(events) || events[at+1].op != "syncdir" {
				t.Errorf("after the rename of %s comes %v, not the sync of its directory", name,
					events[at+1:min(at+2, len(events))])
			}
		}
		for _, e := range events {
			if e.op == "rename" {
				renamed = append(renamed, e.name)
			}
		}
		if renamed[len(renamed)-1] != last {
			t.Errorf("%s is named last of %v, want %s", renamed[len(renamed)-1], renamed, last)
		}
	}
	// A file that cannot be synced does not get its name.
	fail = event{op: "sync"}
	if err := save(0); !errors.Is(err, syscall.EIO) || len(temps) > 0 {
		t.Errorf("after a failed sync: %v, named %v", err, temps)
	}
	fail = event{op: "syncdir"}
	if err := save(0); !errors.Is(err, syscall.EIO) || len(temps) != 1 {
		t.Errorf("after a failed sync of the directory: %v, named %v", err, temps)
	}
}

// TestShards_FilledToTheLastByte fills shards to their last byte.
func TestShards_FilledToTheLastByte(t *testing.T) {
	of := func(sizes ...int) (list []TensorData) {
		for _, n := range sizes {
			list = append(list, TensorData{DType: tensor.F32, Shape: []int{n / 4}})
		}
		return list
	}
	for _, test := range []struct {
		sizes []int
		most  int64
		want  []int // number of tensors in each shard
	}{
		{[]int{8, 8, 8, 8}, 16, []int{2, 2}},
		{[]int{8, 8, 8, 8}, 15, []int{1, 1, 1, 1}},
		{[]int{8, 8, 8, 8}, 17, []int{2, 2}},
		{[]int{8, 8, 8, 8}, 32, []int{4}},
		{[]int{8, 8, 8, 8}, 31, []int{3, 1}},
		{[]int{16, 4, 4, 8, 4}, 16, []int{1, 3, 1}},
		{[]int{4, 100, 4, 4}, 8, []int{1, 1, 2}}, // one tensor is larger than a shard
		{[]int{100}, 8, []int{1}},
		{[]int{8, 8}, 0, []int{2}},
	} {
		var got []int
		for _, shard := range split(of(test.sizes...), test.most) {
			got = append(got, len(shard))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v in shards of %d: %v tensors each, want %v", test.sizes, test.most, got, test.want)
		}
	}
}
