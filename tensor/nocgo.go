//go:build linux && !cgo

package tensor

// Without cgo, Go would only say that packages above have no files. The name is the message: Go turns cgo off if it
// finds no C compiler.
var _ = restyle_needs_a_C_compiler__install_gcc_or_clang__and_set_CGO_ENABLED_1
