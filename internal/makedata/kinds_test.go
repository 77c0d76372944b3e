package main

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"restyle/internal/expect"
	"restyle/internal/hostile"

	"github.com/google/go-cmp/cmp"
)

const checksText = `
-- printed_number.py --
got = int(printed)
-- positive.py --
assert got > 0
`

const addText = `About sums.

-- add/ask --
Add $a and {$b|the number $b}.

-- How much is $a + $b?
-- add/held --
Sum up $a and $b.
-- add/input --
$b
-- add/derived --
a
b
-- add/code.py --

print("\n", $a + $b)


-- add/check.py --
#include printed_number.py

assert got == $a + $b
#include positive.py
-- add/wrong1.py --
print($a)
-- add/wrong2.py --
print($b)

`

const doubleText = `-- double/ask --
Double $a.
-- double/held --
Print 2 * $a.
-- double/code.py --
print(2 * $a)
-- double/check.py --
assert printed
`

const sumText = addText + doubleText

func draw(Draw) Slots { return Slots{} }

// readSums reads sums and then products, whose kinds are never in the training data. The Draws are those of add, double
// and multiply.
func readSums(sums, products string) ([]Kind, error) {
	return readKinds(fstest.MapFS{
		"kinds/checks.txtar":   {Data: []byte(checksText)},
		"kinds/sums.txtar":     {Data: []byte(sums)},
		"kinds/products.txtar": {Data: []byte(products)},
	}, []family{
		{name: "sums", draws: map[string]func(Draw) Slots{"add": draw, "double": draw}},
		{name: "products", unseen: true, draws: map[string]func(Draw) Slots{"multiply": draw}},
	})
}

const productText = `-- multiply/held --
Multiply.
-- multiply/code.py --
print(6)
-- multiply/check.py --
assert printed
`

func TestKindsAreReadAsTheyStand(t *testing.T) {
	got, err := readSums(sumText, productText)
	expect.OK(t, err)
	want := []Kind{
		{
			Name: "add", Ask: []string{"Add $a and {$b|the number $b}.", "-- How much is $a + $b?"},
			Held: []string{"Sum up $a and $b."}, Input: "$b", Derived: []string{"a", "b"}, Code: `print("\n", $a + $b)`,
			Check: "got = int(printed)\n\nassert got == $a + $b\nassert got > 0", Wrong: []string{"print($a)", "print($b)"},
		},
		{
			Name: "double", Ask: []string{"Double $a."}, Held: []string{"Print 2 * $a."},
			Code: "print(2 * $a)", Check: "assert printed",
		},
		{Name: "multiply", Held: []string{"Multiply."}, Code: "print(6)", Check: "assert printed"},
	}
	for i := range got {
		if got[i].Draw == nil {
			t.Errorf("%s has no Draw", got[i].Name)
		}
		got[i].Draw = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesInKindsAreNamed(t *testing.T) {
	tests := []struct{ name, old, new, want string }{ // want: what follows the name of the file
		{"no ask", "-- double/ask --\nDouble $a.\n", "", "29: kind double has no section double/ask"},
		{"no held", "-- double/held --\nPrint 2 * $a.\n", "", "29: kind double has no section double/held"},
		{"no code", "-- double/code.py --\nprint(2 * $a)\n", "", "29: kind double has no section double/code.py"},
		{"no check", "-- double/check.py --\nassert printed\n", "", "29: kind double has no section double/check.py"},
		{"empty", "-- add/input --\n$b\n", "-- add/input --\n\n", "9: section add/input is empty"},
		{"unknown", "add/derived", "add/derive", "11: section add/derive: unknown"},
		{"no part", "-- add/derived --", "-- add --", "11: section add: unknown"},
		{"left out", "add/wrong2.py", "add/wrong3.py", "26: section add/wrong3.py: unknown: a kind has ask, held, input, " +
			"derived, code.py, check.py and, next, wrong2.py"},
		{"section twice", "add/wrong2.py", "add/wrong1.py",
			"26: section add/wrong1.py stands there twice, first at kinds/sums.txtar:24"},
		{"kind twice", "-- double/code.py", "-- add/more --\n-\n-- double/code.py",
			"33: kind add stands there twice, first at kinds/sums.txtar:3"},
		{"no Draw", "-- add/", "-- subtract/", "3: kind subtract has no Draw: add one to draw_sums.go"},
		{"no kind", doubleText, "", " no kind double, whose Draw stands in draw_sums.go"},
		{"include", "#include positive.py", "#include negative.py", `19: section add/check.py: it includes "negative.py"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := strings.ReplaceAll(sumText, test.old, test.new)
			want := "kinds/sums.txtar:" + test.want
			if _, err := readSums(text, productText); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	for _, test := range []struct{ name, products, want string }{
		{"unseen with ask", productText + "-- multiply/ask --\nMultiply.\n",
			"kinds/products.txtar:1: kind multiply has a section ask"},
		{"kind of another file", productText + "-- double/ask --\nDouble.\n",
			"kinds/products.txtar:7: kind double stands there twice, first at kinds/sums.txtar:29"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := readSums(sumText, test.products); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestEveryFileOfKindsIsRead checks that families names every file: any other would be left out without an error.
func TestEveryFileOfKindsIsRead(t *testing.T) {
	files, err := fs.Glob(kindFiles, "kinds/*")
	expect.OK(t, err)
	known := map[string]bool{"kinds/checks.txtar": true}
	for _, f := range families {
		known["kinds/"+f.name+".txtar"] = true
	}
	for _, file := range files {
		if !known[file] {
			t.Errorf("families does not have %s", file)
		}
	}
}

func FuzzReadKinds(f *testing.F) {
	f.Add(sumText)
	f.Add("-- add/ask --\r\n\r\n-- double/wrong1.py --\n#include \n")
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kinds, err := hostile.Parse(t, text, func(text string) ([]Kind, error) { return readSums(text, productText) })
		if err != nil {
			return
		}
		if len(kinds) != 3 {
			t.Fatalf("%d kinds of 3 Draws", len(kinds))
		}
		for _, kind := range kinds {
			whole := kind.Draw != nil && kind.Held != nil && kind.Code != "" && kind.Check != ""
			if !whole || kind.Trained() == (kind.Name == "multiply") {
				t.Errorf("incomplete: %+v", kind)
			}
		}
	})
}
