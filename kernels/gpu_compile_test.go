package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	flags "flag"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

var update = flags.Bool("update", false, "have TestCompile write "+registersFile)

// archs are the GPU architectures that TestCompile compiles for.
var archs = []string{"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"}

// propertiesOf returns the properties of an architecture's GPU that launches look at.
func propertiesOf(arch string) cuda.Properties {
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(arch, "sm_"), "a"))
	return cuda.Properties{Major: n / 10, Minor: n % 10}
}

// A target is a build, the kernels of it that are launched, and the architectures that it is compiled for.
type target struct {
	build
	kernels, archs []string
	odd            bool // at odd sizes only, which are slow anyway: their kernels may spill
}

// targets returns what TestCompile compiles, each build once: of what is timed, everything that a GPU of each
// architecture launches (of those that differ little from sm_80, only the first build of each source); every
// tile of products for the first architecture that has it; and likewise, of what is launched only at the odd sizes of
// tests, what differs from everything else in more than numbers.
func targets(t *testing.T) (list []*target) {
	found, forms, first := map[build]*target{}, map[string]bool{}, map[string]build{}
	add := func(arch string, timed, odd bool, f func(d *Device) error) {
		all := launches(t, propertiesOf(arch), Options{}, f)
		slices.SortStableFunc(all, func(a, b launched) int { return b.width() - a.width() }) // the widest are the first
		for _, l := range all {
			b, form := build{l.source, l.macros, l.threads.Count()}, l.form()
			if first[b.source].source == "" {
				first[b.source] = b
			}
			like80 := slices.Contains([]string{"sm_86", "sm_89", "sm_100a"}, arch) && b != first[b.source]
			if like80 || odd && forms[form] {
				continue
			}
			forms[form] = true
			x := found[b]
			if x == nil {
				x = &target{build: b, odd: odd}
				found[b], list = x, append(list, x)
			}
			if x.kernels = append(x.kernels, l.name); timed || len(x.archs) == 0 {
				x.archs = append(x.archs, arch)
			}
		}
	}
	for _, arch := range archs {
		add(arch, true, false, Timed(t, arch != "sm_75"))
	}
	for i, arch := range archs {
		for _, of := range []tensor.DType{tensor.F16, tensor.BF16}[:min(i+1, 2)] { // sm_75 has no BF16
			add(arch, false, false, func(d *Device) error { return everyTile(d, of, 1000, 2048) })
		}
	}
	for _, arch := range archs {
		add(arch, false, true, Checked(t, arch != "sm_75"))
	}
	for _, x := range list {
		for _, l := range []*[]string{&x.kernels, &x.archs} {
			slices.Sort(*l)
			*l = slices.Compact(*l)
		}
	}
	return list
}

// width returns the number of elements of a launch's vectors, or 0 if it has none.
func (l launched) width() int {
	for _, m := range l.macros.first {
		if m.name == "WIDTH" {
			return m.value
		}
	}
	return 0
}

// form returns what is the same in all launches of a kernel that differ only in numbers: its name, the names of the
// macros, and whether it has vectors.
func (l launched) form() string {
	form := l.source + " " + l.name
	for _, m := range l.macros.first {
		form += " " + m.name
	}
	return fmt.Sprint(form, l.width() == 1)
}

// line returns the table's name of a kernel of a build: "gelu BLOCK_DIM=256 BF16=1 WIDTH=8".
func (b build) line(kernel string) string {
	return kernel + " " + strings.ReplaceAll(strings.Join(b.options(), " "), "-D", "")
}

// A usage is what a thread of a kernel uses: registers and bytes of spilled registers, and the thread block's bytes of
// static shared memory.
type usage struct{ registers, spilled, shared int }

// usages parses what ptxas prints about each kernel.
func usages(log string) map[string]usage {
	all := map[string]usage{}
	for _, m := range ptxasText.FindAllStringSubmatch(log, -1) {
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[2+i]) // "" means no shared memory
		}
		all[m[1]] = usage{n[1], n[0], n[2]}
	}
	return all
}

var ptxasText = regexp.MustCompile(`Compiling entry function '(\w+)' for '\w+'` +
	`[^']*?(\d+) bytes spill stores[^']*?Used (\d+) registers(?:.*?(\d+) bytes smem)?`)

// within returns an error if a kernel uses more than the table's line allows, apart from the few registers by which
// versions of NVRTC differ. A kernel that does not keep its row in registers would be correct but slow, so no kernel
// may spill more than compiler versions make of a few registers.
func (u usage) within(limit usage) (err error) {
	if u.registers > limit.registers+8 {
		err = fmt.Errorf("takes %d registers, and the table has %d", u.registers, limit.registers)
	}
	if u.shared > limit.shared {
		err = errors.Join(err, fmt.Errorf("takes %d bytes of shared memory, and the table has %d", u.shared, limit.shared))
	}
	if u.spilled > 32 {
		err = errors.Join(err, fmt.Errorf("spills %d bytes", u.spilled))
	}
	return err
}

// A place in the table is a kernel with its macros, as line returns it, and an architecture.
type place struct{ line, arch string }

const (
	registersFile = "testdata/registers.txt"
	registersHead = `# What each kernel needs: bytes of static shared memory per thread block, and registers per thread on
# each generation of GPU. Bytes that it spills come after a +. A - means that it is not compiled. TestCompile checks
# this table, and writes it: go test ./kernels -run TestCompile -update
`
)

// tableText returns the table that readTable reads, a line for each kernel and build.
func tableText(table map[place]usage) string {
	lines := map[string]string{}
	for at := range table {
		shared, numbers := 0, ""
		for _, arch := range archs {
			u, number := table[place{at.line, arch}], "-"
			if u.registers > 0 {
				number = strconv.Itoa(u.registers)
			}
			if u.spilled > 0 {
				number += "+" + strconv.Itoa(u.spilled)
			}
			shared, numbers = max(shared, u.shared), numbers+fmt.Sprintf(" %7s", number)
		}
		kernel, macros, _ := strings.Cut(at.line, " ")
		lines[at.line] = fmt.Sprintf("%-26s %6d%s  %s\n", kernel, shared, numbers, macros)
	}
	text := registersHead + fmt.Sprintf("%-26s %6s", "kernel", "shared")
	for _, arch := range archs {
		text += fmt.Sprintf(" %7s", arch)
	}
	text += "  macros\n"
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		text += lines[line]
	}
	return text
}

func readTable(text string) (map[place]usage, error) {
	table := map[place]usage{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if words[0] == "#" || words[0] == "kernel" {
			continue
		}
		if len(words) < 2+len(archs) {
			return nil, fmt.Errorf("%s: %q has no number for each of %v", registersFile, line, archs)
		}
		for i, arch := range archs {
			word := words[2+i]
			if word == "-" {
				continue
			}
			var u usage
			number, spilled, _ := strings.Cut(word, "+")
			if _, err := fmt.Sscanf(number+" "+cmp.Or(spilled, "0")+" "+words[1], "%d %d %d", &u.registers, &u.spilled,
				&u.shared); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", registersFile, line, err)
			}
			table[place{words[0] + " " + strings.Join(words[2+len(archs):], " "), arch}] = u
		}
	}
	return table, nil
}

// table returns the contents of the table's file.
func table(t *testing.T) map[place]usage {
	t.Helper()
	text, err := os.ReadFile(registersFile)
	expect.OK(t, err)
	table, err := readTable(string(text))
	expect.OK(t, err)
	return table
}

// TestUsages_OfPtxas checks the parsing of ptxas's output for each kernel, and that limits are enforced.
func TestUsages_OfPtxas(t *testing.T) {
	got := usages(ptxasSays)
	want := map[string]usage{"adamw": {80, 4, 40964}, "adamw_range": {21, 0, 0}}
	if !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	limit := usage{registers: 80, shared: 1024}
	for u, fits := range map[usage]bool{
		{80, 0, 1024}: true, {88, 32, 1024}: true, {20, 0, 0}: true,
		{89, 0, 1024}: false, {80, 33, 1024}: false, {80, 0, 1025}: false,
	} {
		if err := u.within(limit); (err == nil) != fits {
			t.Errorf("%v of %v: %v", u, limit, err)
		}
	}
	table := map[place]usage{
		{"adamw BF16 WEIGHT=2", "sm_80"}: got["adamw"], {"adamw BF16 WEIGHT=2", "sm_120"}: got["adamw"],
		{"adamw_range BF16", "sm_75"}: got["adamw_range"], {"product F32", "sm_75"}: {128, 8, 16896},
	}
	if read, err := readTable(tableText(table)); err != nil || !maps.Equal(read, table) {
		t.Errorf("%v, %v, not %v", read, err, table)
	}
	for _, text := range []string{"adamw 64 80 80\n", "adamw 64 - - - eighty - - - BF16\n"} {
		if _, err := readTable(text); err == nil {
			t.Errorf("%q is a line", text)
		}
	}
}

const ptxasSays = `ptxas info    : 70 bytes gmem, 152 bytes cmem[4]
ptxas info    : Compiling entry function 'adamw' for 'sm_80'
ptxas info    : Function properties for adamw
ptxas         .     32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 32 bytes cumulative stack size, 40964 bytes smem, 448 bytes cmem[0]
ptxas info    : Compile time = 81.872 ms
ptxas info    : Compiling entry function 'adamw_range' for 'sm_80'
ptxas info    : Function properties for adamw_range
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 21 registers, 448 bytes cmem[0]
`

// TestRegisters_TableIsComplete checks that every kernel is among the targets, and that the table has an entry for each
// target and no other. It needs no compiler.
func TestRegisters_TableIsComplete(t *testing.T) {
	if *update {
		t.Skip("TestCompile writes it")
	}
	left, missing := table(t), declarations(t)
	const how = "run go test ./kernels -run TestCompile -update"
	for _, target := range targets(t) {
		for _, kernel := range target.kernels {
			delete(missing, target.source+" "+kernel)
			for _, arch := range target.archs {
				at := place{target.line(kernel), arch}
				if _, ok := left[at]; !ok {
					t.Errorf("%s has no %v: %s", registersFile, at, how)
				}
				delete(left, at)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("TestCompile has no target that launches %v", slices.Sorted(maps.Keys(missing)))
	}
	for at := range left {
		t.Errorf("%s has %v, which is not launched: %s", registersFile, at, how)
	}
}

// TestCompile compiles every source, with the macros that it is launched with, for the architectures of targets, and
// compares the usage of its kernels with the table. Without RESTYLE_LONG it compiles only the first form of each
// source, for one architecture.
func TestCompile(t *testing.T) {
	cudatest.Once(t)
	c, err := cuda.OpenCompiler(cuda.Properties{})
	if err != nil {
		t.Skip(err)
	}
	t.Logf("NVRTC %d.%d in %s", c.Major, c.Minor, c.Path)
	compile := func(t *testing.T, p cuda.Program, arch string) map[string]usage {
		p.Options = append(p.Options, "--ptxas-options=-v")
		_, log, err := c.Compile(p, arch)
		expect.OK(t, err)
		if strings.Contains(log, "warning") || strings.Contains(log, "Potential Performance Loss") {
			t.Errorf("%s for %s:\n%s", p.Name, arch, log)
		}
		return usages(log)
	}
	program := func(b build) cuda.Program {
		p, err := b.program()
		expect.OK(t, err)
		return p
	}
	limits := map[place]usage{}
	if !*update {
		limits = table(t)
	}
	var lock sync.Mutex
	seen := map[place]usage{}
	t.Run("targets", func(t *testing.T) {
		compiled := map[string]bool{}
		for _, target := range targets(t) {
			p, list := program(target.build), target.archs
			if os.Getenv("RESTYLE_LONG") == "" && !*update {
				if compiled[target.source] {
					continue
				}
				compiled[target.source], list = true, list[:1]
			}
			for _, arch := range list {
				t.Run(target.line(target.source)+" "+arch, func(t *testing.T) {
					t.Parallel()
					all := compile(t, p, arch)
					for _, kernel := range target.kernels {
						if _, ok := all[kernel]; !ok {
							t.Errorf("what ptxas says about %s is not understood", kernel)
						}
					}
					for kernel, u := range all {
						at := place{target.line(kernel), arch}
						limit, listed := limits[at]
						if !listed { // it is not launched, or the table is being written
							limit = u
						}
						taken := u
						if target.odd {
							taken.spilled = 0
						}
						if err := taken.within(limit); err != nil {
							t.Errorf("%s of %s: %v", kernel, target.source, err)
						}
						if slices.Contains(target.kernels, kernel) {
							lock.Lock()
							seen[at] = u
							lock.Unlock()
						}
					}
				})
			}
		}
	})
	t.Run("headers", func(t *testing.T) {
		// the minimum that a source needs
		for _, m := range []macros{{}, define(macro{"BF16", 1}), define(macro{"F32", 1}, macro{"WIDTH", 4})} {
			p := program(build{"op_add.cu", m, 256})
			p.Source = `#include "common.cuh"`
			compile(t, p, "sm_80")
		}
		p := program(build{"op_add.cu", macros{}, 256})
		p.Source = everyMMA
		for _, arch := range archs[1:] {
			compile(t, p, arch)
		}
	})
	if *update && !t.Failed() {
		if err := os.WriteFile(registersFile, []byte(tableText(seen)), 0o666); err != nil {
			t.Error(err)
		}
	}
}

// everyMMA calls each function of mma.cuh.
const everyMMA = `
#include "common.cuh"
#include "mma.cuh"
extern "C" __global__ void every(float *to, const uint4 *from) {
	extern __shared__ __align__(16) unsigned char room[];
	float d[4] = {};
	unsigned a[4], b[4];
	copyAsync(room + 16 * threadIdx.x, from + threadIdx.x, threadIdx.x < 7);
	copyCommit();
	copyWait<0>();
	__syncwarp();
	ldmatrix(a, room + 16 * threadIdx.x);
	ldmatrixTransposed(b, room + 16 * threadIdx.x);
	mma(d, a, {b[0], pack(d[0], to[0])});
	mmaTF32(d, a, {b[2], b[3]});
	to[threadIdx.x] = d[threadIdx.x % 4];
}
`
