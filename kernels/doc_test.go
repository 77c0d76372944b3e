package kernels

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// noOperations are the methods of op_*.go that compute nothing.
var noOperations = []string{"NewAdamWList", "NewFactorList", "SetINT8Activations", "Decodes"}

// TestDoc_Table checks the package comment's table: it has every operation of op_*.go and nothing else, what can be
// fused by its name, and files that exist.
func TestDoc_Table(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	expect.OK(t, err)
	_, table, _ := strings.Cut(string(text), "//\tforward ")
	table, _, _ = strings.Cut(table, "\n//\n")
	var listed, fused []string
	const fusedAt, cpuAt, cudaAt = 52, 71, 88 // the columns of the head
	for _, row := range strings.Split(table, "\n//\t")[1:] {
		row += strings.Repeat(" ", 100)
		listed = append(listed, strings.Fields(row[:fusedAt])...)
		fused = append(fused, strings.Fields(row[fusedAt:cpuAt])...)
		for _, name := range strings.Fields(row[cpuAt:cudaAt]) {
			if _, err := os.Stat(strings.Replace("cpu/ops_"+name+".c", "ops_gemm", "gemm", 1)); err != nil {
				t.Error(err)
			}
		}
		for _, name := range strings.Fields(row[cudaAt:]) {
			if found, err := filepath.Glob(name + ".cu"); err != nil || found == nil {
				t.Errorf("there is no %s.cu", name)
			}
		}
	}
	files, err := filepath.Glob("op_*.go")
	expect.OK(t, err)
	var operations []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		expect.OK(t, err)
		method := regexp.MustCompile(`(?m)^func \(d \*Device\) ([A-Z]\w*)\(`)
		for _, m := range method.FindAllStringSubmatch(string(source), -1) {
			if !slices.Contains(noOperations, m[1]) {
				operations = append(operations, m[1])
			}
		}
	}
	for _, name := range operations {
		if !slices.Contains(listed, name) {
			t.Errorf("the table lacks %s", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(operations, name) {
			t.Errorf("there is no operation %s", name)
		}
	}
	for _, name := range FusedOps {
		if !slices.Contains(fused, name) {
			t.Errorf("the table lacks the fused form %s", name)
		}
	}
	for _, name := range fused {
		if !slices.Contains(FusedOps, name) {
			t.Errorf("there is no fused form %s", name)
		}
	}
}
