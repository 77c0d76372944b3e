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

// Fail runs a program on the emulated GPU, and has a call fail: the one of that number, from 0 on, of those of the driver, of NVRTC
// and of cuBLASLt. -1 is none. A call of the driver then answers result, and others what they answer. It returns the names of all
// calls, and what the program returns. Launches do nothing. Without a C++ compiler the test is skipped.
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

// Results are what a call is to answer in turn: of a result of a call of the driver alone, and of those after which a GPU does nothing
// more.
func Results(call string) []int {
	if strings.HasPrefix(call, "nvrtc") || strings.HasPrefix(call, "cublasLt") {
		return []int{2}
	}
	return []int{2, 700, 999}
}

// Wrong says what is wrong with the error of a program of which Fail had that call fail: "" if nothing is.
func Wrong(names []string, call, result int, err error) string {
	if call >= len(names) { // it was not made: a goroutine was on fewer threads than at first
		return ""
	}
	// There is a way without these, or what they give back is given back with something else.
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
