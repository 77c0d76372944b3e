package cuda

import (
	"fmt"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// TestCandidates checks that the GPU with the most free memory is first, and among equal ones the lowest number, with
// and without NVML.
func TestCandidates(t *testing.T) {
	for _, names := range [][]string{{"libcuda", "libnvidia-ml"}, {"libcuda"}} {
		for settings, want := range map[string]string{
			"GPUS=1":                         "0:1048576",
			"GPUS=2":                         "0:1048576 1:1048576",
			"GPUS=4 USED=576,76,300,76":      "1:1048500 3:1048500 2:1048276 0:1048000",
			"GPUS=3 USED=1048576,1048000,76": "2:1048500 1:576 0:0",
		} {
			t.Run(fmt.Sprint(names, settings), func(t *testing.T) {
				cudatest.Use(t, names...)
				cudatest.Set(t, settings)
				list, err := Candidates()
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, c := range list {
					got = append(got, fmt.Sprintf("%d:%d", c.Ordinal, c.Free))
					if c.Name != fmt.Sprintf("Stand-in %d", c.Ordinal) || c.Minor != c.Ordinal ||
						!strings.HasSuffix(c.UUID, fmt.Sprint(c.Ordinal)) {
						t.Errorf("%+v", c)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%v, not %s", got, want)
				}
			})
		}
	}
	t.Run("exclusive", func(t *testing.T) {
		cudatest.Use(t, "libcuda")
		t.Setenv("STANDIN_MODE", "3,0")
		list, err := Candidates()
		if err != nil || len(list) != 2 || list[0].Ordinal != 1 || list[1].Free != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
	t.Run("none", func(t *testing.T) {
		cudatest.Use(t, "libcuda")
		machine(t, plain)
		t.Setenv("STANDIN_GPUS", "0")
		if list, err := Candidates(); err == nil || list != nil {
			t.Errorf("%+v, %v", list, err)
		}
	})
	for capability, kib := range map[[2]int]int{{7, 5}: 64, {8, 0}: 163, {8, 6}: 99, {8, 9}: 99, {9, 0}: 227, {10, 0}: 227,
		{10, 3}: 227, {12, 0}: 99} {
		if got := (Properties{Major: capability[0], Minor: capability[1]}).MaxShared(); got != kib<<10 {
			t.Errorf("sm_%d%d: %d bytes", capability[0], capability[1], got)
		}
	}
	for capability, want := range map[int]bool{7: false, 8: true, 12: true} {
		if (Properties{Major: capability, Minor: 5}).HasBF16() != want {
			t.Error(capability)
		}
	}
}
