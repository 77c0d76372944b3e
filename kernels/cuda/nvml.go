package cuda

/*
#include <stdlib.h>
#include "monitor.h"
#include "nvml_api.h"

#cgo noescape cuda_open_nvml
#cgo noescape cuda_find_meters
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// A Monitor reads the meters of a GPU through NVML, which comes with the driver. The GPU need not be open.
type Monitor struct{ nvml, gpu C.uintptr_t }

// OpenMonitor finds a GPU, or a MIG slice, by its UUID, as in Properties.
func OpenMonitor(uuid string) (*Monitor, error) {
	nvml, err := openNVML()
	if err != nil {
		return nil, err
	}
	var wrong error
	for _, kind := range []string{"GPU-", "MIG-"} {
		var message [256]C.char
		id := C.CString(kind + uuid)
		gpu := C.cuda_find_meters(nvml, id, &message[0], C.int(len(message)))
		C.free(unsafe.Pointer(id))
		if gpu != 0 {
			return &Monitor{nvml, gpu}, nil
		}
		wrong = errors.Join(wrong, fmt.Errorf("NVML: %s%s: %s", kind, uuid, C.GoString(&message[0])))
	}
	return nil, wrong
}

func openNVML() (nvml C.uintptr_t, err error) {
	err = search("no NVML", libnvml.paths(0), func(path string, message *C.char, size C.int) bool {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		nvml = C.cuda_open_nvml(p, message, size)
		return nvml != 0
	})
	return nvml, err
}

// sliced returns the number of GPUs that are divided into MIG slices, 0 without NVML.
func sliced() int {
	nvml, err := openNVML()
	if err != nil {
		return 0
	}
	return int(C.cuda_sliced(nvml))
}

// Meters are readings of a GPU's sensors and counters. What a GPU does not report is -1; a MIG slice reports little
// more than its memory.
type Meters struct {
	Energy      int  // millijoules since the driver was loaded
	Power       int  // milliwatts
	Clock       int  // of the multiprocessors, MHz
	MemoryClock int  // MHz
	Temperature int  // degrees Celsius
	Held        Held // what holds the clocks back; 0 if it is not reported
	Free, Used  int  // bytes of memory, of all processes
}

// Read reads all meters.
func (m *Monitor) Read() Meters {
	c := C.cuda_read_meters(m.nvml, m.gpu)
	return Meters{
		Energy: int(c.energy), Power: int(c.power), Clock: int(c.sm), MemoryClock: int(c.memory),
		Temperature: int(c.temperature), Held: Held(max(c.held, 0)), Free: int(c.free), Used: int(c.used),
	}
}

// Held tells why a GPU's clocks are below their maximum, as NVML's bits of clocks-event reasons.
type Held uint64

// Power reports whether the power limit, or the power supply, holds the clocks back.
func (h Held) Power() bool {
	return h&(C.nvmlClocksEventReasonSwPowerCap|C.nvmlClocksThrottleReasonHwPowerBrakeSlowdown) != 0
}

// Heat reports whether the temperature holds the clocks back.
func (h Held) Heat() bool {
	return h&(C.nvmlClocksEventReasonSwThermalSlowdown|C.nvmlClocksThrottleReasonHwThermalSlowdown) != 0
}

// String returns what holds the clocks back: "power", "heat", "power and heat", "the hardware", or "" if none of these
// does.
func (h Held) String() string {
	var reasons []string
	if h.Power() {
		reasons = append(reasons, "power")
	}
	if h.Heat() {
		reasons = append(reasons, "heat")
	}
	if h&C.nvmlClocksThrottleReasonHwSlowdown != 0 && reasons == nil {
		return "the hardware"
	}
	return strings.Join(reasons, " and ")
}
