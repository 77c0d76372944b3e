// Package cli implements what the commands share: grouped flags, settings from the environment, exit codes, and output
// to terminals and files.
package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"restyle/internal/disk"

	"golang.org/x/term"
)

// Exit codes of every command.
const (
	Done    = 0  // success
	Failed  = 1  // failure that a person has to look into
	Usage   = 2  // wrong flags or arguments; nothing was started
	Retry   = 33 // temporary failure, such as of the network or a GPU: run the same command again
	Stopped = 34 // stopped early, with all results saved
)

// A UsageError is a mistake in flags or arguments. A command with one exits with Usage.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e *UsageError) Unwrap() error { return e.error }

// Usagef returns a UsageError with a message that is formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// NameFlag appends a flag's name to an error if another value of that flag would avoid the error: if the error has a
// method Setting that returns the name. It returns any other error unchanged.
func NameFlag(err error) error {
	if setting, ok := errors.AsType[interface {
		error
		Setting() string
	}](err); ok {
		return fmt.Errorf("%w (--%s)", err, setting.Setting())
	}
	return err
}

// Text returns the text of an error without lines that repeat an earlier one. A file that remembers its first error
// returns it again when it is closed, and then it is in a joined error twice.
func Text(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// Flags is a flag set whose help keeps the order and the groups in which flags were added.
type Flags struct {
	*flag.FlagSet
	stdout, stderr io.Writer
	about          string
	groups         []group
	first          group                    // shown before the others
	env            map[string]string        // flag -> environment variable
	byEnv          map[string]bool          // flags whose value an environment variable gave
	empty          map[string]bool          // flags that may be given as ""
	optional       map[string]string        // the value of flags that may be given without one
	defaults       func() map[string]string // see Defaults
	width          int                      // columns of the help
}

type group struct {
	title string
	names []string
}

// New returns an empty flag set. The help goes to stdout and starts with about; messages about mistakes go to stderr.
func New(name, about string, stdout, stderr io.Writer) *Flags {
	return &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), stdout: stdout, stderr: stderr, about: about,
		env: map[string]string{}, byEnv: map[string]bool{}, empty: map[string]bool{}, optional: map[string]string{},
		width: helpWidth}
}

// helpWidth is the width of the help, unless the terminal is narrower.
const helpWidth = 100

// Group starts a group of flags.
func (f *Flags) Group(title string) { f.groups = append(f.groups, group{title: title}) }

// First makes the help begin with these flags, under a title, instead of listing them in their groups.
func (f *Flags) First(title string, names ...string) { f.first = group{title, names} }

// Add defines a flag of the current group for the variable that v points to. The variable's value is the default. A
// word in backticks in the usage names the flag's value.
func (f *Flags) Add(v any, name, usage string) {
	switch p := v.(type) {
	case *bool:
		f.BoolVar(p, name, *p, usage)
	case *int:
		f.IntVar(p, name, *p, usage)
	case *int64:
		f.Int64Var(p, name, *p, usage)
	case *float64:
		f.Float64Var(p, name, *p, usage)
	case *string:
		f.StringVar(p, name, *p, usage)
	case *[]string:
		f.Var((*List)(p), name, usage)
	case *time.Duration:
		f.DurationVar(p, name, *p, usage)
	case flag.Value:
		f.Var(p, name, usage)
	default:
		panic(fmt.Sprintf("flag %s: no flags of type %T", name, v))
	}
	g := &f.groups[len(f.groups)-1]
	g.names = append(g.names, name)
}

// Env lets an environment variable set a flag that the command line does not set.
func (f *Flags) Env(name, variable string) { f.env[name] = variable }

// MayBeEmpty allows "" as the value of these text flags. For other text flags Parse rejects "", because it is probably
// an unset variable of a script.
func (f *Flags) MayBeEmpty(names ...string) {
	for _, name := range names {
		f.empty[name] = true
	}
}

// ByEnv reports whether an environment variable set a flag.
func (f *Flags) ByEnv(name string) bool { return f.byEnv[name] }

// Given reports whether the command line or the environment set a flag.
func (f *Flags) Given(name string) (given bool) {
	f.Visit(func(fl *flag.Flag) { given = given || fl.Name == name })
	return given
}

// Optional lets a flag have no value: --name then means --name=value. If the next argument does not begin with a
// hyphen, it is the flag's value.
func (f *Flags) Optional(name, value string) { f.optional[name] = value }

// Defaults sets a function that returns the defaults of flags, as the help shows them, if they depend on other flags.
// It is called after all arguments are read.
func (f *Flags) Defaults(of func() map[string]string) { f.defaults = of }

// printHelp prints the help.
func (f *Flags) printHelp() {
	if f.defaults != nil {
		for name, text := range f.defaults() {
			if fl := f.Lookup(name); fl != nil {
				fl.DefValue = text
			}
		}
	}
	if of := TerminalWidth(f.stdout); of != nil {
		f.width = min(helpWidth, max(40, of()-1))
	}
	fmt.Fprintln(f.stdout, refill(strings.TrimSpace(f.about), f.width))
	f.groupHelp(f.stdout, f.first)
	for _, g := range f.groups {
		g.names = slices.DeleteFunc(slices.Clone(g.names), func(name string) bool {
			return slices.Contains(f.first.names, name)
		})
		f.groupHelp(f.stdout, g)
	}
}

func (f *Flags) groupHelp(out io.Writer, g group) {
	if len(g.names) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", g.title)
	for _, name := range g.names {
		f.help(out, f.Lookup(name))
	}
}

func (f *Flags) help(out io.Writer, fl *flag.Flag) {
	kind, usage := flag.UnquoteUsage(fl)
	if _, optional := f.optional[fl.Name]; optional {
		kind = "[" + kind + "]"
	}
	if kind != "" {
		kind = " " + kind
	}
	head := "  --" + fl.Name + kind
	var notes []string
	if fl.DefValue != "" && fl.DefValue != "false" && fl.DefValue != "[]" {
		notes = append(notes, "default "+fl.DefValue)
	}
	if v := f.env[fl.Name]; v != "" {
		notes = append(notes, "environment "+v)
	}
	if len(notes) > 0 {
		usage += " (" + strings.Join(notes, "; ") + ")"
	}
	const column = 28
	if len(head) < column {
		head += strings.Repeat(" ", column-len(head))
	} else {
		head += "\n" + strings.Repeat(" ", column)
	}
	fmt.Fprintln(out, head+strings.Join(Wrap(usage, f.width-column), "\n"+strings.Repeat(" ", column)))
}

// Paths is a path flag that may be given several times.
type Paths []string

func (p *Paths) String() string { return fmt.Sprint([]string(*p)) }

// Set adds a path, unchanged.
func (p *Paths) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return errEmpty
	}
	*p = append(*p, s)
	return nil
}

// Files is a flag of paths that may be given several times, each also as a pattern of path/filepath.Match, for shells
// that leave patterns alone, such as the one in --flag=pattern.
type Files []string

func (p *Files) String() string { return fmt.Sprint([]string(*p)) }

// Set adds a path. Unless a file has that name, a pattern adds the files that match it, in the order of their names.
func (p *Files) Set(s string) error {
	if _, err := os.Stat(s); err == nil || !strings.ContainsAny(s, "*?[") {
		return (*Paths)(p).Set(s)
	}
	found, err := disk.Glob(s)
	if err != nil {
		return fmt.Errorf("%w: name files, or quote the pattern's characters with a backslash", err)
	}
	if len(found) == 0 {
		return errors.New("no file matches the pattern")
	}
	*p = append(*p, found...)
	return nil
}

var errEmpty = errors.New("it is empty: give its value, or leave it out")

// List is a flag that may be given several times.
type List []string

func (l *List) String() string { return fmt.Sprint([]string(*l)) }

// Set adds one or more values, separated by commas.
func (l *List) Set(s string) error {
	if strings.Trim(s, ", \t\n") == "" {
		return errEmpty
	}
	for _, v := range strings.Split(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			*l = append(*l, v)
		}
	}
	return nil
}

// IsTerminal reports whether w, or the writer below it (see [Raw]), is a terminal, and TERM is not "dumb".
func IsTerminal(w io.Writer) bool {
	f, ok := Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

var version string // of a release: its build sets it with -ldflags -X

// Version returns the release's version or the module's, the commit and Go's version, as far as the build recorded
// them.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "(unknown)")
	}
	v := cmp.Or(version, info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return v + " " + info.GoVersion
}

// Count returns a number with a noun whose plural ends in s: "1 row", "2 rows".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Some joins names for people: the first 20, and how many more there are. It cuts long ones.
func Some(names []string) string {
	var shown []string
	for i, name := range names {
		if i == 20 {
			shown = append(shown, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		if len(name) > 60 {
			name = strings.ToValidUTF8(name[:60], "") + "…"
		}
		shown = append(shown, name)
	}
	return strings.Join(shown, ", ")
}

// SameFile reports whether two paths lead to the same file, however they are spelled, or would lead to it if it
// existed.
func SameFile(a, b string) bool {
	if whole, err := filepath.Abs(a); err == nil {
		if other, err := filepath.Abs(b); err == nil && whole == other {
			return true
		}
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// The help of flags that several commands have.
const (
	DeviceHelp = "device to run on, `auto|cpu|cuda|cuda:N`; auto is the NVIDIA GPU with the most free memory, or the " +
		"CPU if there is none, and cuda is cuda:0"
	DTypeHelp = "type of weights and activations, `auto|bf16|fp16|fp32`; auto is bf16 if most weights are stored in it " +
		"and " +
		"none in fp16, else fp32"
)
