package main

import (
	"bytes"
	"errors"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/expect"
)

// TestTable_IsNotStale checks that the faults can still be planted. The texts of some may move with the code; past 2 %
// the table has to be brought up to date.
func TestTable_IsNotStale(t *testing.T) {
	root, err := moduleRoot()
	expect.OK(t, err)
	files, err := tables(root)
	expect.OK(t, err)
	faults, err := table(files...)
	if err != nil || len(faults) == 0 {
		t.Fatalf("%d faults: %v", len(faults), err)
	}
	var stale []string
	for _, m := range faults {
		if err := m.stale(root); err != nil {
			stale = append(stale, err.Error())
		}
	}
	t.Logf("%d of %d faults are stale\n%s", len(stale), len(faults), strings.Join(stale, "\n"))
	if len(stale)*50 > len(faults) {
		t.Error("more than 2 % of the faults are stale")
	}
}

func TestParse(t *testing.T) {
	for entry, want := range map[string]mutant{
		"a/b\nfile f.go\ntest ./p -run X\n-old\n+new\n\n":          {"a/b", "f.go", "old", "new", "./p -run X"},
		"a/b\nwhy so\nfile f.go\ntest ./p\n-\told\n-\n":            {"a/b", "f.go", "\told\n", "", "./p"},
		"a/b\nfile f.go\ntest ./p\n--old\n-# not a name\n++new\n+": {"a/b", "f.go", "-old\n# not a name", "+new\n", "./p"},
		"a b/c\nfile f.go\ntest ./p\n-old\n":                       {},
		"ab\nfile f.go\ntest ./p\n-old\n":                          {},
		"a/b\nfile f.go\ntest p\n-old\n":                           {},
		"a/b\ntest ./p\n-old\n":                                    {},
		"a/b\nfile f.go\ntest ./p\n-same\n+same\n":                 {},
		"a/b\nfile f.go\ntest ./p\n-old\nnew\n":                    {},
	} {
		got, err := parse(entry)
		if (err == nil) != (want.name != "") || err == nil && got != want {
			t.Errorf("%q: %+v, %v", entry, got, err)
		}
	}
}

// TestFaultsOf checks the changes to a function that has one place for each.
func TestFaultsOf(t *testing.T) {
	const source = `package p

func f(a []int, b *T) bool {
	defer g(a[0], b.n)
	if len(a) < 3 {
		return true
	}
	for i := range a {
		if i == 4 || b == nil {
			continue
		}
		b.n = a[:i][i-1]
		b.n += min(i, 7)
	}
	switch b.n {
	case 1, 2:
		*b = T{n: 1, m: 2}
	}
	return g(1, b.n)
}
`
	faults, err := faultsOf("p/f.go", source)
	expect.OK(t, err)
	var got []string
	for _, m := range faults {
		from, to := 0, 0
		for from < len(m.old) && from < len(m.new) && m.old[from] == m.new[from] {
			from++
		}
		for to < min(len(m.old), len(m.new))-from && m.old[len(m.old)-1-to] == m.new[len(m.new)-1-to] {
			to++
		}
		kind := m.name[strings.LastIndexByte(m.name, ':')+1:]
		before, after := m.old[from:len(m.old)-to], strings.TrimSpace(m.new[from:len(m.new)-to])
		got = append(got, strings.TrimSpace(kind+" "+before+" -> "+after))
		if changed, err := format.Source([]byte(strings.Replace(source, m.old, m.new, 1))); err != nil ||
			strings.Count(source, m.old) != 1 || string(changed) == source {
			t.Errorf("%s: %v\n%s", m.name, err, m.old)
		}
	}
	slices.Sort(got)
	want := strings.Split(strings.TrimSpace(`
boundary  -> =
break continue -> break
case-less , 2 ->
deleted *b = T{n: 1, m: 2} ->
deleted b.n = a[:i][i-1] ->
deleted defer g(a[0], b.n) ->
element , m: 2 ->
element n: 1,  ->
first-only  -> break
last-only + ->
left-only || b == nil  ->
max in -> ax
never i == 4 || b == nil -> false && (i == 4 || b == nil)
never len(a) < 3 -> false && (len(a) < 3)
other-answer tru -> fals
right-only i == 4 ||  ->
swapped a[0], b.n -> b.n, a[0]
to-the-end i ->
without-number -1 ->
`), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestPlant checks plant with faults in a module of four lines.
func TestPlant(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26\n",
		"add.go": "package small\n\nfunc add(a, b int) int { return a + b }\n\nconst unused = 1\n",
		"add_test.go": "package small\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif add(2, 3) != 5 " +
			"{\n\t\tt.Fail()\n\t}\n}\n",
	} {
		expect.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	p := planter{root: root}
	for _, c := range []struct {
		m    mutant
		want verdict
	}{
		{mutant{"a/found", "add.go", "a + b", "a - b", "."}, found},
		{mutant{"a/hangs", "add.go", "return a + b", "select {}", "."}, timedOut},
		{mutant{"a/survives", "add.go", "unused = 1", "unused = 2", "."}, survived},
		{mutant{"a/runs-no-test", "add.go", "unused = 1", "unused = 2", ". -run TestSub"}, broken},
		{mutant{"a/does-not-compile", "add.go", "a + b", "a + c", "."}, broken},
		{mutant{"a/not-there", "add.go", "a * b", "a", "."}, broken},
		{mutant{"a/not-once", "add.go", "a", "b", "."}, broken},
	} {
		if p.timeout = time.Minute; c.want == timedOut {
			p.timeout = time.Millisecond
		}
		if got, out := p.plant(t.Context(), c.m); got != c.want {
			t.Errorf("%s: %s, not %s\n%s", c.m.name, got, c.want, out)
		}
	}
}

func TestVerdict(t *testing.T) {
	const late = "panic: test timed out after 2m0s\n\trunning tests:\n\t\tTestB (1m59s)\n"
	const killed = "SIGQUIT: quit\n*** Test killed with quit: ran too long (3m0s).\n"
	for out, want := range map[string]verdict{
		late + "FAIL\tp\t120.0s\nFAIL\n":                                  timedOut,
		killed + "FAIL\tp\t180.0s\nFAIL\n":                                timedOut,
		late + "FAIL\tp\t120.0s\n" + killed + "FAIL\tq\t180.0s\nFAIL\n":   timedOut,
		"ok  \tp\t1.0s\n" + late + "FAIL\tq\t120.0s\nFAIL\n":              timedOut,
		"--- FAIL: TestA (0.00s)\n" + late + "FAIL\tp\t120.0s\nFAIL\n":    found,
		late + "FAIL\tp\t120.0s\nsignal: killed\nFAIL\tq\t1.0s\nFAIL\n":   found,
		"--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tp\t1.0s\nFAIL\n":            found,
		"x.go:1:1: undefined: x\nFAIL\tp [build failed]\nok  \tq\t1.0s\n": broken,
	} {
		if got := verdictOf(out, errors.New("exit status 1")); got != want {
			t.Errorf("%s, not %s: %q", got, want, out)
		}
	}
}

func TestFlags(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-run", "("}, &out, &errs); code != 2 || errs.Len() == 0 {
		t.Errorf("a bad expression: exit %d, %q", code, errs.String())
	}
	out.Reset()
	if code := run(t.Context(), []string{"-list", "-run", "^no such area/"}, &out, &errs); code != 0 || out.Len() != 0 {
		t.Errorf("a list of nothing: exit %d, %q", code, out.String())
	}
}

// TestCompile checks that an object is taken from where it is kept exactly if source and flags are the same.
func TestCompile(t *testing.T) {
	dir, objects := t.TempDir(), t.TempDir()
	source, header := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.h")
	for i, c := range []struct {
		value, flag string
		kept        int
	}{{"1", "-O1", 1}, {"1", "-O1", 1}, {"1", "-O2", 2}, {"2", "-O1", 3}, {"1", "-O1", 3}} {
		for name, text := range map[string]string{
			source: "#include \"a.h\"\nint a(void) { return VALUE; }\n",
			header: "#define VALUE " + c.value + "\n",
		} {
			expect.OK(t, os.WriteFile(name, []byte(text), 0o600))
		}
		out := filepath.Join(t.TempDir(), "a.o")
		var errs bytes.Buffer
		if code := compile(objects, []string{"-I", dir, c.flag, "-o", out, "-c", source}, nil, &errs, &errs); code != 0 {
			t.Fatalf("%d: exit %d: %s", i, code, &errs)
		}
		kept, err := os.ReadDir(objects)
		if err != nil || len(kept) != c.kept {
			t.Errorf("%d: %d objects are kept, not %d: %v", i, len(kept), c.kept, err)
		}
		if _, err := os.Stat(out); err != nil {
			t.Error(err)
		}
	}
}
