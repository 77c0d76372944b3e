package kernels

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// powercap is where Linux shows the energy counters of processors. Tests replace it.
var powercap = "/sys/class/powercap"

// Energy returns the joules that the device has used since some moment: only the difference of two readings has a
// meaning. For a GPU it covers the whole card, as NVML reports it. For the CPU it covers all packages, as their RAPL
// counters report it, which start again at 0 from time to time. known is false if the machine does not report it, as
// most virtual machines do not, or reports it only to root.
func (d *Device) Energy() (joules float64, known bool) {
	if d.gpu != nil {
		m, known := d.Meters()
		return float64(m.Energy) / 1e3, known && m.Energy > 0
	}
	packages, _ := filepath.Glob(filepath.Join(powercap, "intel-rapl:?")) // AMD's have the same name
	for _, dir := range packages {
		text, err := os.ReadFile(filepath.Join(dir, "energy_uj"))
		microjoules, bad := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err != nil || bad != nil {
			return 0, false
		}
		joules += microjoules / 1e6
	}
	return joules, len(packages) > 0
}
