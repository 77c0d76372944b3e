package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// TestOpenGivesBack makes each call that opens a GPU fail, and checks that everything acquired by then is released.
func TestOpenGivesBack(t *testing.T) {
	g, _ := openEmulated(t)
	g.Close()
	library, err := emulator(Cache{cudatest.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "calls")
	for k := 1; !t.Failed(); k++ { // one that is not released may keep all later ones from ending
		cudatest.Set(t, fmt.Sprintf("FAIL=%d RESULT=999 CALLS=%s", k, file))
		g, err := open([]string{library}, 0)
		if err == nil {
			g.Close()
			break
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		calls := strings.Fields(string(text))
		failed := calls[k-1]
		calls = slices.Delete(calls, k-1, k)
		for take, give := range map[string]string{"cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease_v2",
			"cuStreamCreate": "cuStreamDestroy_v2",
			"cuMemHostAlloc": "cuMemFreeHost", "cuEventCreate": "cuEventDestroy_v2"} {
			count := func(name string) (n int) {
				for _, call := range calls {
					if call == name {
						n++
					}
				}
				return n
			}
			if count(take) != count(give) {
				t.Errorf("call %d, %s, fails: %d times %s and %d times %s", k, failed, count(take), take, count(give), give)
			}
		}
	}
}
