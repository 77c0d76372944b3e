package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// Parse reads the arguments and then the environment. If done is true, the command should exit with code; Parse has
// already printed the help or any error.
func (f *Flags) Parse(args []string) (code int, done bool) {
	paths, code, done := f.ParsePaths(args)
	if !done && len(paths) > 0 {
		meant := ""
		if f.Lookup(paths[0]) != nil {
			meant = "; did you mean --" + paths[0] + "?"
		}
		return f.mistake(fmt.Errorf("unexpected argument %q: flags come as --name value%s", paths[0], meant)), true
	}
	return code, done
}

// ParsePaths does what Parse does, for a command that also takes paths. They may come before, between and after flags;
// what follows -- is a path in any case.
func (f *Flags) ParsePaths(args []string) (paths []string, code int, done bool) {
	paths, err := f.read(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.printHelp()
		return nil, Done, true
	case err != nil:
		return nil, f.mistake(err), true
	}
	if err := f.check(); err != nil {
		fmt.Fprintf(f.stderr, "%s: %v\n", f.Name(), err)
		return nil, Usage, true
	}
	return paths, Done, false
}

// mistake prints what is wrong with the arguments, and returns the exit code.
func (f *Flags) mistake(err error) int {
	fmt.Fprintf(f.stderr, "%s: %v\nsee %s -h\n", f.Name(), err, f.Name())
	return Usage
}

// read sets the flags that arguments name, and returns the other arguments. If the arguments ask for the help, read
// returns flag.ErrHelp, whatever is wrong with others.
func (f *Flags) read(args []string) (paths []string, err error) {
	help := false
	for len(args) > 0 {
		arg, rest := args[0], args[1:]
		switch {
		case arg == "--":
			paths, rest = append(paths, rest...), nil
		case f.asksForHelp(arg):
			help = true
		case strings.HasPrefix(arg, "–"), strings.HasPrefix(arg, "—"):
			err = cmp.Or(err, fmt.Errorf("%s begins with a dash: flags begin with hyphens, --name", arg))
		case len(arg) < 2 || arg[0] != '-':
			paths = append(paths, arg)
		default:
			var wrong error
			rest, wrong = f.readFlag(arg, rest)
			err = cmp.Or(err, wrong)
		}
		args = rest
	}
	if help {
		return nil, flag.ErrHelp
	}
	return paths, err
}

func (f *Flags) asksForHelp(arg string) bool {
	return (arg == "-h" || arg == "-help" || arg == "--h" || arg == "--help") && f.Lookup(strings.Trim(arg, "-")) == nil
}

// readFlag sets the flag that an argument names, and returns the arguments after it and its value.
func (f *Flags) readFlag(arg string, rest []string) ([]string, error) {
	name, value, given := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	fl := f.Lookup(name)
	if fl == nil {
		return rest, fmt.Errorf("there is no flag --%s%s", name, f.suggestion(name))
	}
	next := ""
	if len(rest) > 0 {
		next = rest[0]
	}
	optional, may := f.optional[name]
	_, isBool := fl.Value.(interface{ IsBoolFlag() bool })
	switch {
	case given:
	case may && (len(rest) == 0 || strings.HasPrefix(next, "-")):
		value = optional
	case isBool && !strings.EqualFold(next, "true") && !strings.EqualFold(next, "false"):
		value = "true"
	case len(rest) == 0:
		return rest, fmt.Errorf("--%s needs a value", name)
	case strings.HasPrefix(next, "--") && f.Lookup(next[2:]) != nil:
		return rest, fmt.Errorf("--%s needs a value, and %s is a flag: if it is the value, write --%[1]s=%[2]s", name, next)
	default:
		value, rest = next, rest[1:]
	}
	return rest, f.set(fl, value)
}

// set sets a flag. It returns an error that names the flag and its value.
func (f *Flags) set(fl *flag.Flag, value string) error {
	err := f.Set(fl.Name, value)
	if err == nil {
		return nil
	}
	if g, ok := fl.Value.(flag.Getter); ok {
		what := ""
		switch g.Get().(type) {
		case bool:
			what = "true or false"
		case int, int64:
			what = "a whole number"
		case float64:
			what = "a number"
		case time.Duration:
			what = "a duration such as 30s or 5m"
		}
		if what != "" {
			err = fmt.Errorf("must be %s", what)
		}
	}
	return fmt.Errorf("--%s %s: %w", fl.Name, strconv.Quote(value), err)
}

// check returns an error for a text that is empty, and sets flags from the environment.
func (f *Flags) check() (err error) {
	given := map[string]bool{}
	f.Visit(func(fl *flag.Flag) {
		given[fl.Name] = true
		if g, ok := fl.Value.(flag.Getter); ok && !f.empty[fl.Name] {
			if text, ok := g.Get().(string); ok && strings.TrimSpace(text) == "" {
				err = fmt.Errorf("--%s is empty: give its value, or leave it out", fl.Name)
			}
		}
	})
	for name, variable := range f.env {
		value := os.Getenv(variable)
		if err != nil || strings.TrimSpace(value) == "" || given[name] {
			continue
		}
		if wrong := f.Set(name, value); wrong != nil {
			err = fmt.Errorf("the environment variable %s does not fit --%s: %w", variable, name, wrong)
		}
		f.byEnv[name] = true
	}
	return err
}

// suggestion returns which flag may be meant by a name that none has, as the end of a message.
func (f *Flags) suggestion(name string) string {
	var names []string
	for _, g := range f.groups {
		names = append(names, g.names...)
	}
	found := Nearest(name, names)
	if found == "" {
		found = f.described(names, words(name))
	}
	if found == "" {
		return ""
	}
	return "; did you mean --" + found + "?"
}

// described returns the first flag in whose help at least the first two of the words occur in this order, or that they
// contain, or that one of them names in a longer or shorter form: --learning-rate is --lr, --max_new_tokens is
// --max-tokens, and --output is --out.
func (f *Flags) described(names, wanted []string) string {
	for n := len(wanted); n >= 2; n-- {
		phrase := " " + strings.Join(wanted[:n], " ") + " "
		for _, name := range names {
			if help := words(f.Lookup(name).Usage); strings.Contains(" "+strings.Join(help, " ")+" ", phrase) {
				return name
			}
		}
	}
	// If several flags are named, the last one counts: --per_device_train_batch_size is --batch.
	for _, w := range slices.Backward(wanted) {
		if len(w) > 2 && slices.Contains(names, w) {
			return w
		}
	}
	for _, name := range names {
		parts := words(name)
		if len(parts) > 1 && !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(wanted, p) }) {
			return name
		}
	}
	for _, w := range wanted {
		for _, name := range names {
			longer := len(name) > 2 && strings.HasPrefix(w, name)
			shorter := len(wanted) == 1 && len(w) > 2 && (strings.HasPrefix(name, w) || strings.HasSuffix(name, "-"+w))
			if longer || shorter || w+"s" == name {
				return name
			}
		}
	}
	return ""
}

// words returns the words of a text in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// Nearest returns the name that a misspelled one probably means: the one with the fewest letters to change, at most
// two, or one of a short name. Of several such names it returns the first, and "" if none is near.
func Nearest(name string, names []string) (nearest string) {
	plain := strings.Join(words(name), "-")
	most := 3
	if len(plain) < 5 {
		most = 2
	}
	for _, n := range names {
		if d := levenshtein.ComputeDistance(plain, n); d < most {
			nearest, most = n, d
		}
	}
	return nearest
}
