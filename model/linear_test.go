package model

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Products with weights are methods of linear: no other file names a field of it.
func TestLinear_FieldsStayInFile(t *testing.T) {
	if got := linearFields(t, ""); got != nil {
		t.Errorf("%s: must be methods of linear, in linear.go", strings.Join(got, ", "))
	}
	planted := `package model
		func (a *attention) one() []part { return a.qkv.parts }
		func (m *Model) two() bool { return m.head.bias.trainable() }
		func three(p []part) linear { return linear{parts: p} }
		func four(n norm) weight { return n.bias }`
	if got := linearFields(t, planted); !slices.Equal(got, []string{"planted.go:2", "planted.go:3", "planted.go:4"}) {
		t.Errorf("in the planted file: %q: must be the first three functions", got)
	}
}

// linearFields returns where the package's files, except linear.go, and one more file name fields of linear.
func linearFields(t *testing.T, planted string) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	parse := func(name string, source any) {
		f, err := parser.ParseFile(set, name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			parse(name, nil)
		}
	}
	if planted != "" {
		parse("planted.go", planted)
	}
	// Without imports, only types of other packages are unknown.
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}}
	p, _ := config.Check("model", set, files, &info)
	fields := p.Scope().Lookup("linear").Type().Underlying().(*types.Struct)
	for name, used := range info.Uses {
		at := set.Position(name.Pos())
		for i := range fields.NumFields() {
			if used == fields.Field(i) && at.Filename != "linear.go" {
				places = append(places, fmt.Sprintf("%s:%d", at.Filename, at.Line))
			}
		}
	}
	slices.Sort(places)
	return places
}
