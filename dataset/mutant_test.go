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

	"github.com/google/go-cmp/cmp"
)

// mutant damages a file in the way of that number: cut at every 64th byte first,
// then single bits and bytes, most of them in the footer, where the sizes are.
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

// mutations decodes mutants as a child would, many in one process: it prints the
// number of each before it begins, then how it ended.
func mutations() int {
	file, start, _ := strings.Cut(os.Getenv(mutate), ":")
	data, err := os.ReadFile(file)
	if err != nil {
		return 1
	}
	limit := childMemory(int64(len(data)))
	debug.SetMemoryLimit(limit * 3 / 4)
	go watch(uint64(limit), os.Getppid())
	first, _ := strconv.Atoi(start)
	for i := first; i < mutantsOfAFile; i++ {
		fmt.Printf("%d ", i)
		m := mutant(data, i)
		var rows []Row
		table, err := openParquet(bytes.NewReader(m), int64(len(m)), wanted{})
		for err == nil {
			var rec []string
			if rec, err = table.next(); err == nil {
				rows = append(rows, Row{rec[0], rec[1], rec[2], len(rows)})
			}
		}
		switch {
		case err != io.EOF:
			fmt.Println("refused")
		case len(rows) == 40 && cmp.Equal(rows, sampleRows()):
			fmt.Println("same") // the damage is where nothing is read
		default:
			fmt.Println("other") // other rows: in uncompressed text nothing tells
		}
		if table != nil {
			table.close()
		}
	}
	return 0
}

// TestMutants damages good files in 3,600 ways. Those that end the process they
// are decoded in are then opened as a user would.
func TestMutants(t *testing.T) {
	counts := map[string]int{}
	for _, name := range []string{"codec_none", "codec_snappy", "codec_gzip", "codec_brotli", "codec_zstd", "delta_byte_array", "pages_v2", "checksums", "row_groups"} {
		path, err := filepath.Abs("testdata/" + name + ".parquet")
		if err != nil {
			t.Fatal(err)
		}
		file := []byte(read(t, path))
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
					_, _, alone := all(write(t, "x.parquet", string(mutant(file, i))), Options{})
					if alone != nil { // else it was what the mutants before it left
						wantError(t, alone, "x.parquet")
					}
					t.Logf("%s: mutant %d: %v; alone: %v", name, i, err, alone)
				}
				if how == "other" && name == "checksums" {
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
