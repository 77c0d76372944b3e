package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"

	"github.com/google/go-cmp/cmp"
)

// mutant damages a file in the ith way: first it truncates the file at every 64th byte; then it changes single bits and
// bytes, mostly in the footer, which has the sizes.
func mutant(file []byte, i int) []byte {
	if at := i * 64; at < len(file) {
		return file[:at]
	}
	r := rand.New(rand.NewPCG(uint64(i), 7))
	out := bytes.Clone(file)
	footer := int(binary.LittleEndian.Uint32(file[len(file)-8:])) + 8
	for range 1 + r.IntN(3) {
		at := r.IntN(len(out))
		if r.IntN(2) == 0 {
			at = len(out) - 1 - r.IntN(footer)
		}
		switch r.IntN(3) {
		case 0:
			out[at] ^= 1 << r.IntN(8)
		case 1:
			out[at] = []byte{0x00, 0xff, 0x7f, 0x80, 0xfe, 0x01}[r.IntN(6)]
		default:
			out[at] = byte(r.IntN(256))
		}
	}
	return out
}

const mutantsOfAFile = 400

// mutations decodes many mutants in one process, as a child would. It prints the number of each before it starts, and
// then how it ended.
func mutations() int {
	file, start, _ := strings.Cut(os.Getenv(mutate), ":")
	data, err := os.ReadFile(file)
	if err != nil {
		return 1
	}
	limit := childMemory(int64(len(data)))
	debug.SetMemoryLimit(limit * 3 / 4)
	go watch(uint64(limit), os.Getppid())
	want, err := decode(data, file)
	if err != io.EOF {
		return 1
	}
	first, _ := strconv.Atoi(start)
	for i := first; i < mutantsOfAFile; i++ {
		fmt.Printf("%d ", i)
		switch rows, err := decode(mutant(data, i), file); {
		case err != io.EOF:
			fmt.Println("refused")
		case cmp.Equal(rows, want):
			fmt.Println("same") // nothing reads the damaged place
		default:
			fmt.Println("other") // other rows: uncompressed text has no checksum that would show it
		}
	}
	return 0
}

// decode reads all records of a file; name is its name.
func decode(data []byte, name string) (rows [][]string, err error) {
	table, err := openParquet(bytes.NewReader(data), int64(len(data)), wanted{Training: holdsTalk(name)})
	if err != nil {
		return nil, err
	}
	defer table.close()
	for {
		rec, err := table.next()
		if err != nil {
			return rows, err
		}
		rows = append(rows, rec)
	}
}

func holdsTalk(name string) bool { return strings.HasPrefix(filepath.Base(name), "messages") }

// TestParquet_Mutants damages good files in 5,600 ways. If a mutant ends the process that decodes it, the test opens
// the mutant as a user would.
func TestParquet_Mutants(t *testing.T) {
	counts := map[string]int{}
	for _, name := range []string{"codec_none", "codec_snappy", "codec_gzip", "codec_brotli", "codec_zstd",
		"delta_byte_array", "pages_v2", "checksums", "row_groups", "messages", "messages_v2", "messages_parts", "lz4_pages",
		"lz4_hadoop"} {
		path, err := filepath.Abs("testdata/" + name + ".parquet")
		expect.OK(t, err)
		file := []byte(expect.Read(t, path))
		for next := 0; next < mutantsOfAFile; {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = []string{mutate + "=" + path + ":" + strconv.Itoa(next), "GOTRACEBACK=none"}
			out, err := cmd.Output()
			slow := ctx.Err() != nil
			cancel()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			for _, line := range lines {
				number, how, done := strings.Cut(line, " ")
				i, bad := strconv.Atoi(number)
				if bad != nil {
					t.Fatalf("%s: output %q, %v", name, line, err)
				}
				next = i + 1
				if !done || how == "" {
					how = "fatal"
					if slow {
						t.Errorf("%s: mutant %d does not end", name, i)
					}
					var alone error
					if x := expect.File(t, "x.parquet", string(mutant(file, i))); holdsTalk(name) {
						_, _, alone = conversations(x, Options{})
					} else {
						_, _, alone = all(x, Options{})
					}
					if alone != nil { // otherwise an earlier mutant in that process was the cause
						expect.Error(t, alone, "x.parquet")
					}
					t.Logf("%s: mutant %d: %v; alone: %v", name, i, err, alone)
				}
				if how == "other" && (name == "checksums" || name == "lz4_pages") {
					t.Errorf("mutant %d gives other rows in spite of checksums", i)
				}
				if how != "refused" && i*64 < len(file) {
					t.Errorf("%s cut at %d: %s", name, i*64, how)
				}
				counts[how]++
				counts["all"]++
			}
		}
	}
	t.Logf("mutants: %v", counts)
	if counts["refused"] < 2000 {
		t.Errorf("only %d of %d mutants are refused", counts["refused"], counts["all"])
	}
}
