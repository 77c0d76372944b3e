package cudatest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Fail runs a program on the emulated GPU and makes one call fail: call number call, from 0, among the calls of the
// driver, NVRTC and cuBLASLt; -1 is none. A call of the driver then returns result, and other calls return their own
// error. Fail returns the names of all calls, and the program's error. Launches do nothing. Without a C++ compiler it
// skips the test.
func Fail(t testing.TB, call, result int, program func() error) (names []string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls")
	Set(t, fmt.Sprintf("IDLE=1 FAIL=%d RESULT=%d CALLS=%s", call+1, result, file))
	err = program()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	text, missing := os.ReadFile(file)
	if missing != nil {
		t.Fatal(missing, err)
	}
	return strings.Fields(string(text)), err
}

// Chosen returns which of a program's calls to fail: every allocation, and of each other kind of call the first one,
// the last one and every n-th, or all if RESTYLE_LONG is set.
func Chosen(calls []string, n int) (chosen []int) {
	last := map[string]int{}
	for k, call := range calls {
		last[call] = k
	}
	for k, call := range calls {
		end := slices.Index(calls, call) == k || last[call] == k
		if call == "cuMemAlloc_v2" || end || k%n == 0 || os.Getenv("RESTYLE_LONG") != "" {
			chosen = append(chosen, k)
		}
	}
	return chosen
}

// Results returns the results to test a call with: one that affects only a driver call, and one after which a GPU does
// nothing more.
func Results(call string) []int {
	if strings.HasPrefix(call, "nvrtc") || strings.HasPrefix(call, "cublasLt") {
		return []int{2}
	}
	return []int{2, 700, 999}
}

// Wrong returns what is wrong with the error of a program in which Fail made a call fail, or "" if nothing is.
func Wrong(names []string, call, result int, err error) string {
	if call >= len(names) { // the call was not made: a goroutine ran on fewer threads than the first time
		return ""
	}
	// Programs can do without these, or something else frees what they free.
	optional := []string{"cuMemHostAlloc", "cuDeviceGetAttribute", "cuEventDestroy_v2", "cuMemFreeHost"}
	name := names[call]
	switch {
	case err == nil && result == 2 && slices.Contains(optional, name):
	case err == nil && (strings.HasPrefix(name, "nvrtc") || strings.HasPrefix(name, "cublasLt")) &&
		(strings.Contains(name, "Destroy") || strings.Contains(name, "ProgramLog")):
	case err == nil || !strings.Contains(err.Error(), name+" was told to fail"):
		return fmt.Sprintf("call %d of %d, %s, answers %d, and the error is %v", call, len(names), name, result, err)
	}
	return ""
}
