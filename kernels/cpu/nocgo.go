//go:build linux && !cgo

package cpu

import _ "restyle/tensor" // which does not compile without cgo, and says what is missing
