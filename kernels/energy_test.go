package kernels

import (
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
)

func TestEnergy(t *testing.T) {
	d, err := Open("cpu", Options{})
	expect.OK(t, err)
	defer d.Close()
	defer func(before string) { powercap = before }(powercap)
	powercap = t.TempDir()
	if _, known := d.Energy(); known {
		t.Error("there is no counter")
	}
	for zone, text := range map[string]string{"intel-rapl:0": "1500000\n", "intel-rapl:1": "250000\n",
		"intel-rapl:0:0": "9000000\n"} { // the last is a part of the first
		dir := filepath.Join(powercap, zone)
		expect.OK(t, os.Mkdir(dir, 0o700))
		expect.OK(t, os.WriteFile(filepath.Join(dir, "energy_uj"), []byte(text), 0o600))
	}
	if joules, known := d.Energy(); !known || joules != 1.75 {
		t.Errorf("%v, %v", joules, known)
	}
	expect.OK(t, os.Remove(filepath.Join(powercap, "intel-rapl:1", "energy_uj")))
	if _, known := d.Energy(); known {
		t.Error("one counter cannot be read")
	}
}
