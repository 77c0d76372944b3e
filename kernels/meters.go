package kernels

import "restyle/kernels/cuda"

// Meters are what the meters of a GPU say.
type Meters = cuda.Meters

// Meters reads those of the device. On the CPU, and without NVML, known is false.
func (d *Device) Meters() (m Meters, known bool) {
	if d.gpu == nil {
		return m, false
	}
	if d.gpu.monitor == nil && !d.gpu.dark {
		monitor, err := cuda.OpenMonitor(d.gpu.UUID)
		d.gpu.monitor, d.gpu.dark = monitor, err != nil
	}
	if d.gpu.dark {
		return m, false
	}
	return d.gpu.monitor.Read(), true
}
