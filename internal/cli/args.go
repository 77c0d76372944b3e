package cli

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ParsePaths is Parse for a command that takes paths, too. They may come before, between and after flags; what follows
// -- is a path in any case.
func (f *Flags) ParsePaths(args []string) (paths []string, code int, done bool) {
	flags, paths := split(f.FlagSet, args)
	code, done = f.Parse(flags)
	return paths, code, done
}

// split separates flags and their values from paths.
func split(set *flag.FlagSet, args []string) (flags, paths []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return flags, append(paths, args[i+1:]...)
		case len(arg) < 2 || arg[0] != '-':
			paths = append(paths, arg)
			continue
		}
		flags = append(flags, arg)
		if takesNext(set, arg) && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	return flags, paths
}

// takesNext reports whether a flag's value is the next argument.
func takesNext(set *flag.FlagSet, arg string) bool {
	name := arg[1:]
	if name[0] == '-' {
		name = name[1:]
	}
	f := set.Lookup(name)
	if f == nil {
		return false // its value follows an =, or Parse will report that it does not exist
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

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

// CheckThreads returns an error if n is no number of --threads.
func CheckThreads(n int) error {
	if n < 0 || n > MaxThreads {
		return Usagef("--threads %d: must be from 1 to %d, or 0 for all", n, MaxThreads)
	}
	return nil
}
