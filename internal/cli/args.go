package cli

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ShellQuote returns a word as a shell reads it: in quotes if it has a character that may mean something to one.
func ShellQuote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._,-+=:@%", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// CheckDevice returns an error if no device can have the name of --device. Only opening it shows whether it exists.
func CheckDevice(name string) error {
	if number, numbered := strings.CutPrefix(name, "cuda:"); numbered {
		if _, err := strconv.ParseUint(number, 10, 16); err == nil {
			return nil
		}
	}
	if slices.Contains([]string{"auto", "cpu", "cuda", "emulated"}, name) {
		return nil
	}
	return Usagef("--device %q: must be auto, cpu, cuda, cuda:N or emulated", name)
}

// MaxThreads is the kernels' limit on CPU threads.
const MaxThreads = 1024

// CheckThreads returns an error if n is not a valid number for --threads.
func CheckThreads(n int) error {
	if n < 0 || n > MaxThreads {
		return Usagef("--threads %d: must be from 1 to %d, or 0 for all", n, MaxThreads)
	}
	return nil
}
