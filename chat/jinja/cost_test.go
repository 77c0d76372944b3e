package jinja

import (
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
	"restyle/internal/linear"
)

// operands are values of about n bytes or items, of each kind that grows.
func operands(n int) map[string]any {
	repeated := func(s string, n int) Str { return own(strings.Repeat(s, n/len(s))) }
	d, texts, pairs, objects := &Dict{}, list(), list(), list()
	var mixed Str
	for i := range n / 10 {
		name := fmt.Sprint("a", i)
		d.Set(name, integer(i))
		texts.items = append(texts.items, own(name))
		pairs.items = append(pairs.items, tuple(own(name), integer(i)))
		object := &Dict{}
		object.Set("a", own(name))
		objects.items = append(objects.items, object)
		mixed.s += "A b-<"
		mixed.in = append(mixed.in, Span{5 * i, 5*i + 2, 0})
	}
	shared := any(tuple())
	for range 60 {
		shared = tuple(shared, shared)
	}
	deep := any(tuple())
	for range n {
		deep = tuple(deep)
	}
	return map[string]any{
		"text": Str{s: strings.Repeat("ab 1.", n/5), in: []Span{{0, n, 0}}}, "mixed": mixed,
		"digits": repeated("1", n), "blanks": repeated(" ", n), "wide letters": repeated("Σß", n),
		"hyphens": repeated("a-----", n), "lines": repeated("a\n", n), "tabs": repeated("a\t", n),
		"addresses": repeated("www.a.com ", n), "tags": repeated("&lt;<b>", n), "fields": repeated("%c{0}{{", n),
		"dict": d, "texts": texts, "pairs": pairs, "objects": objects, "shared": shared, "deep": deep,
		"integer": new(big.Int).Lsh(big.NewInt(3), uint(min(8*n, maxBits-8))), "float": 1e-300,
		"range": &Range{0, n, 1, n},
	}
}

// operations returns everything that a template can do with x and y, from the interpreter's own tables.
func operations() (all []string) {
	for name := range filters {
		all = append(all, "x|"+name, "x|"+name+"(y)", "x|"+name+"(y, y)", "x|map('"+name+"')|list")
	}
	for _, attribute := range []string{"sort", "unique", "min", "max", "sum", "join", "groupby", "map"} {
		all = append(all, "x|"+attribute+"(attribute='a')|string", "x|"+attribute+"(attribute=y)|string")
	}
	for _, name := range strings.Fields(testNames) {
		all = append(all, "x is "+name, "x is "+name+"(y)", "x|select('"+name+"')|list")
	}
	methods := []map[string]bool{keysOf(stringMethods), keysOf(listMethods), keysOf(dictMethods)}
	for _, table := range methods {
		for name := range table {
			all = append(all, "x."+name+"()", "x."+name+"(y)", "x."+name+"(y, 1, 9)")
		}
	}
	for _, op := range append(operators, "in", "not in", "and", "or") {
		if op != "." {
			all = append(all, "x "+op+" y", "y "+op+" x")
		}
	}
	for name := range globals {
		all = append(all, name+"(x)", name+"(x, y)", name+"(a=x)", name+"(*x)", name+"(**x)")
	}
	return append(all, "[x, y]", "(x, y)", "{x: y}", "{y: x}", "x[y]", "x[0]", "x[-1]", "x[1:]", "x[::-1]", "x.a", "-x",
		"not x", "x if y else x", "'%s %r %d' % (x, y, x)", "'%*d' % (x, y)", "'{} {!r} {:>9}'.format(x, y, x)",
		"{}.get(x)", "loop.changed(x, y)", "loop.cycle(x, y)", "namespace(a=x).a", "cycler(x, y).next()", "joiner(x)()")
}

func keysOf[V any](m map[string]V) map[string]bool {
	all := map[string]bool{}
	for k := range m {
		all[k] = true
	}
	return all
}

// TestOperationsPay runs each operation on operands of each kind. It allocates at most eight bytes for each byte
// that it pays, whether it ends in an error or not, and pays for every text at each turn.
func TestOperationsPay(t *testing.T) {
	const n, turns = 1000, 5
	xs := operands(n)
	for _, what := range operations() {
		template, err := Compile(fmt.Sprintf("{%% for i in range(%d) %%}{%% set r = %s %%}{%% endfor %%}", turns, what))
		if err != nil {
			continue
		}
		for kind, x := range xs {
			y := any(integer(100_000))
			if len(what)%2 == 0 {
				y = x
			}
			in, got, err := (*interp)(nil), 0, error(nil)
			for range 3 { // a collection of garbage takes what regular expressions have set aside
				in = run(x, y, 50_000)
				before := allocated()
				_, err = template.render(in)
				if got = allocated() - before; got <= 8*in.paid+32<<10 {
					break
				}
			}
			if got > 8*in.paid+32<<10 {
				t.Errorf("%s, x is %s: allocates %d bytes, paid %d", what, kind, got, in.paid)
			}
			if s, is := x.(Str); is && err == nil && in.paid < turns*len(s.s) {
				t.Errorf("%s, x is %s: %d turns on %d bytes paid %d", what, kind, turns, len(s.s), in.paid)
			}
		}
	}
}

// TestMemory_HeldIsPaidFor keeps what each operation makes, and finds in memory no more than the template has paid for.
func TestMemory_HeldIsPaidFor(t *testing.T) {
	const n, turns = 1000, 100
	xs := operands(n)
	for _, what := range operations() {
		template, err := Compile(fmt.Sprintf("{%% set n = namespace(all=()) %%}{%% for i in range(%d) %%}"+
			"{%% set n.all = (n.all, %s) %%}{%% endfor %%}{{ keep(n.all) }}", turns, what))
		if err != nil {
			continue
		}
		kind := "mixed"
		if len(what)%2 == 0 {
			kind = "pairs"
		}
		var kept any
		in := run(xs[kind], xs[kind], 500_000)
		in.vars.Set("keep", &Func{call: func(_ *interp, a *args) any { kept = a.list[0]; return nil }})
		if _, err := template.render(in); err != nil {
			continue
		}
		got := -live()
		runtime.KeepAlive(kept)
		kept = nil
		if got += live(); -got > 2*in.held+64<<10 {
			t.Errorf("%s, x is %s: holds %d bytes, paid %d", what, kind, -got, in.held)
		}
		runtime.KeepAlive(template)
		runtime.KeepAlive(in)
	}
}

// live returns the bytes in memory that something still refers to.
func live() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// attacks are templates that once took minutes or gigabytes: a value that many others share, an operation on a long
// text in a loop, a product of two counts, a value that is kept. a is a text, b an integer and d a dict.
var attacks = map[string]string{
	"key of what is shared":      "{{ {shared: 1} }}",
	"shared in a dict":           "{{ shared in {} }}",
	"unique of what is shared":   "{{ [shared]|unique|list }}",
	"shared as an index":         "{{ {}[shared] }}",
	"shared as text":             "{{ shared|tojson }}{{ shared }}",
	"comparison of what is deep": "{{ deep == (deep,)[0] }}",
	"digits":                     "{% for i in range(2000) %}{{ a.isdigit() }}{% endfor %}",
	"find of a kept method":      "{% set f = a.find %}{% for i in range(2000) %}{{ f('2') }}{% endfor %}",
	"equal":                      "{% for i in range(2000) %}{{ a == a }}{% endfor %}",
	"in":                         "{% for i in range(2000) %}{{ '2' in a }}{% endfor %}",
	"find":                       "{% for i in range(2000) %}{{ a.find('2') }}{% endfor %}",
	"strip":                      "{% for i in range(2000) %}{{ a.strip() }}{% endfor %}",
	"strip of many characters":   "{{ a.strip(a) }}",
	"int":                        "{% for i in range(2000) %}{{ a|int }}{% endfor %}",
	"slices":                     "{% for i in range(2000) %}{% set x = a[1:2] %}{% endfor %}",
	"starts":                     "{{ a.startswith((a[1:] ~ '2',) * 2000) }}",
	"text as a list":             "{% for i in range(20) %}{% set x = a|list %}{% endfor %}",
	"range in a loop":            "{% for i in range(100000) %}{% set x = -1 in range(100000) %}{% endfor %}",
	"large integers":             "{% for i in range(10000) %}{% set x = b % 7 %}{% endfor %}",
	"text of a large integer":    "{% for i in range(10000) %}{% set x = '{:,}'.format(b) %}{% endfor %}",
	"key of a large integer":     "{% for i in range(10000) %}{% set x = {b: 1} %}{% endfor %}",
	"precision":                  "{% for i in range(10000) %}{% set x = '%.1000f' % 0.1 %}{% endfor %}",
	"digits of a round":          "{% for i in range(10000) %}{{ 1e-300|round(400) }}{% endfor %}",
	"fields of a format":         "{% for i in range(10000) %}{% set x = ('%%' * 2500) % () %}{% endfor %}",
	"times":                      "{{ strftime_now('%c' * 1000000) }}",
	"wrapped blanks":             "{{ (' ' * 1000000)|wordwrap(1) }}",
	"a long path":                "{{ [1]|map(attribute='a.' * 100000)|list }}",
	"copies of names":            "{% for i in range(1000) %}{{ range(1000)|map('format', **d)|list }}{% endfor %}",
	"names of a macro": "{% macro f(z) %}{{ kwargs }}{% endmacro %}" +
		"{% for i in range(1000) %}{% set x = f(**d) %}{% endfor %}",
	"names that are never set": "{% for i in range(10000) %}{% if false %}" + strings.Repeat("{% set a = 1 %}", 100) +
		"{% set " + longName + " = 1 %}{% endif %}{% endfor %}",
	"a long name": "{% set " + longName + " = 1 %}{% for i in range(10000) %}{{ " + longName + " }}{% endfor %}",
	"kept macros": "{% set n = namespace(x=()) %}{% for i in range(100000) %}{% macro m() %}{% endmacro %}" +
		"{% set n.x = (n.x, m) %}{% endfor %}",
	"kept names": "{% set n = namespace(x=()) %}{% for i in range(1000) %}{% set n.x = (n.x, 1|attr(a)) %}{% endfor %}",
}

var longName = strings.Repeat("a", 200_000)

// TestAttacks_EndBeforeTheyAllocate ends each attack by an error, and before it has allocated much.
func TestAttacks_EndBeforeTheyAllocate(t *testing.T) {
	xs := operands(200_000)
	d := &Dict{}
	for i := range 2000 {
		d.Set(fmt.Sprint("k", i), true)
	}
	for name, text := range attacks {
		template, err := Compile(text)
		expect.OK(t, err)
		in := run(nil, nil, 400_000)
		for name, kind := range map[string]string{"a": "digits", "b": "integer", "shared": "shared", "deep": "deep"} {
			in.vars.Set(name, xs[kind])
		}
		in.vars.Set("d", d)
		before := allocated()
		_, err = template.render(in)
		if err == nil || !strings.Contains(err.Error(), "more than") || len(err.Error()) > 2*maxMessage {
			t.Errorf("%s: %.300v after %d of %d steps", name, err, in.paid/stepBytes, in.maxPaid/stepBytes)
		}
		if got := allocated() - before; got > 4*in.maxPaid {
			t.Errorf("%s: allocates %d bytes", name, got)
		}
	}
}

// TestLimits_GrowWithInput runs attacks with the limits that a user has, which grow with the input.
func TestLimits_GrowWithInput(t *testing.T) {
	vars := &Dict{}
	vars.Set("a", Text(strings.Repeat("a", 1_000_000), 0))
	loop := func(statement string) string {
		return "{% set n = namespace(x=()) %}{% for i in range(100000) %}{% set " + statement + " %}{% endfor %}"
	}
	for text, want := range map[string]string{
		strings.Replace(loop("n.x = (n.x, n.x)"), "100000", "28", 1) + "{{ {n.x:1} }}": "a text of more than 16777216 bytes",
		loop("x = a.isdigit()"):            "more than 20000",
		loop("n.x = (n.x, a ~ '')"):        "values of more than 332438",
		strings.Repeat(" ", maxTemplate+1): "a template of 524289 bytes: at most 524288",
	} {
		before := allocated()
		template, err := Compile(text)
		if err == nil {
			_, err = template.Render(vars, time.Time{})
		}
		expect.Error(t, err, want)
		if got := allocated() - before; got > 1<<30 {
			t.Errorf("%.100s: allocates %d bytes", text, got)
		}
	}
}

// TestTemplate_TakesLinearTime reads and runs templates that once took time quadratic in their length.
func TestTemplate_TakesLinearTime(t *testing.T) {
	counted := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for what, f := range map[string]func(n int) string{
		"arguments": func(n int) string { return "{{ f(" + counted(n, "a%d=1,") + ") }}" },
		"parameters": func(n int) string {
			return "{% macro f(" + counted(n, "a%d,") + "z) %}" + counted(n, "{%% set b%d = 1 %%}") + "{% endmacro %}"
		},
		"targets": func(n int) string {
			return "{% for " + counted(n, "a%d,") + "z in [] %}" + counted(n, "{%% set b%d = 1 %%}") + "{% endfor %}"
		},
		"hyphens": func(n int) string { return fmt.Sprintf("{{ ('a' ~ '-' * %d)|wordwrap(5) }}", 8*n) },
		"spans":   func(n int) string { return fmt.Sprintf("{%% set x = (('a ' ~ m) * %d).split() %%}", n) },
		"spans of lines": func(n int) string {
			return fmt.Sprintf("{%% set x = (('a\n' ~ m) * %d).splitlines() %%}{%% set x = ('%%%%' ~ m * %d) %% () %%}", n, n)
		},
	} {
		linear.Test(t, what, 250, func(n int) {
			template, err := Compile(f(n))
			expect.OK(t, err)
			in := run(nil, nil, 100_000_000)
			in.vars.Set("m", Text("b", 0))
			_, _ = template.render(in)
		})
	}
}

// run prepares a render with x and y, and a limit of steps.
func run(x, y any, steps int) *interp {
	vars := &Dict{}
	vars.Set("x", x)
	vars.Set("y", y)
	return &interp{vars: vars, now: time.Unix(0, 0), budget: budget{maxPaid: steps * stepBytes, maxHeld: maxHeld}}
}

// allocated returns the bytes that were ever allocated.
func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}
