package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// random returns n faults of Go packages, chosen by seed from all that faultsOf makes. Their tests are their package's
// tests. Unlike the faults in the table, they may not compile, or may change nothing.
func random(root string, packages []string, n int, seed uint64) ([]mutant, error) {
	var all []mutant
	for _, pkg := range packages {
		pkg = strings.Trim(strings.TrimPrefix(pkg, "./"), "/")
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no Go files", pkg)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			some, err := faultsOf(pkg+"/"+filepath.Base(file), string(text))
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))], nil
}

// faultsOf returns a fault for each place in a file's functions at which a statement or an expression can be left out,
// cut short or moved by one.
func faultsOf(file, text string) ([]mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	of := func(n ast.Node) string { return text[at(n.Pos()):at(n.End())] }
	seen := map[string]bool{}
	var all []mutant
	plant := func(kind string, from, to token.Pos, changed string) {
		m := replacing(text, at(from), at(to), changed)
		m.name = fmt.Sprintf("random/%s:%d:%d:%s", file, set.Position(from).Line, set.Position(from).Column, kind)
		m.file = file
		m.tests = "./" + filepath.Dir(file)
		_, err := format.Source([]byte(strings.Replace(text, m.old, m.new, 1)))
		if err != nil || m.old == m.new || seen[m.name] {
			return
		}
		seen[m.name] = true
		all = append(all, m)
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			for _, c := range changes(n, of) {
				plant(c.kind, c.from, c.to, c.text)
			}
			return true
		})
	}
	return all, nil
}

// A change replaces the source between two positions.
type change struct {
	kind     string
	from, to token.Pos
	text     string
}

var boundaries = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

// changes returns what may be wrong at a node. of returns the source of another one.
func changes(n ast.Node, of func(ast.Node) string) []change {
	whole := func(kind, text string) []change { return []change{{kind, n.Pos(), n.End(), text}} }
	switch n := n.(type) {
	case *ast.IfStmt:
		if n.Else == nil && of(n.Cond) != "err != nil" {
			return []change{{"never", n.Cond.Pos(), n.Cond.End(), "false && (" + of(n.Cond) + ")"}}
		}
	case *ast.BinaryExpr:
		x, y := of(n.X), of(n.Y)
		other, ordered := boundaries[n.Op]
		number, isNumber := n.Y.(*ast.BasicLit)
		switch {
		case n.Op == token.LAND || n.Op == token.LOR:
			return append(whole("left-only", x), whole("right-only", y)...)
		case ordered:
			return whole("boundary", x+" "+other+" "+y)
		case (n.Op == token.ADD || n.Op == token.SUB) && isNumber && number.Kind == token.INT:
			return whole("without-number", x)
		}
	case *ast.AssignStmt:
		switch n.Tok {
		case token.ASSIGN:
			return whole("deleted", "")
		case token.ADD_ASSIGN:
			return whole("last-only", of(n.Lhs[0])+" = "+of(n.Rhs[0]))
		}
	case *ast.IncDecStmt, *ast.ExprStmt, *ast.DeferStmt:
		return whole("deleted", "")
	case *ast.BranchStmt:
		other := map[token.Token]string{token.CONTINUE: "break", token.BREAK: "continue"}[n.Tok]
		if n.Label == nil && other != "" {
			return whole(other, other)
		}
	case *ast.RangeStmt:
		return []change{{"first-only", n.Body.Rbrace, n.Body.Rbrace, "\nbreak\n"}}
	case *ast.CaseClause:
		if len(n.List) > 1 {
			return []change{{"case-less", n.List[len(n.List)-2].End(), n.List[len(n.List)-1].End(), ""}}
		}
	case *ast.SliceExpr:
		if n.High != nil && !n.Slice3 {
			return []change{{"to-the-end", n.High.Pos(), n.High.End(), ""}}
		}
	case *ast.CompositeLit:
		return elements(n)
	case *ast.ReturnStmt:
		for _, r := range n.Results {
			if id, ok := r.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
				return []change{{"other-answer", r.Pos(), r.End(), strconv.FormatBool(id.Name == "false")}}
			}
		}
	case *ast.CallExpr:
		if other := map[string]string{"min": "max", "max": "min"}[of(n.Fun)]; other != "" {
			return []change{{other, n.Fun.Pos(), n.Fun.End(), other}}
		}
		if len(n.Args) == 2 && plain(n.Args[0]) && plain(n.Args[1]) {
			a, b := n.Args[0], n.Args[1]
			return []change{{"swapped", a.Pos(), b.End(), of(b) + ", " + of(a)}}
		}
	}
	return nil
}

// elements returns changes that leave out one element of a literal each.
func elements(n *ast.CompositeLit) (all []change) {
	for i, e := range n.Elts {
		from, to := e.Pos(), e.End()
		switch {
		case i+1 < len(n.Elts):
			to = n.Elts[i+1].Pos()
		case i > 0:
			from = n.Elts[i-1].End()
		}
		all = append(all, change{"element", from, to, ""})
	}
	return all
}

// plain reports whether an argument may have the type of another.
func plain(e ast.Expr) bool {
	switch e.(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.BinaryExpr:
		return true
	}
	return false
}

// replacing returns a fault that replaces part of a file's text, in whole lines, as many before it as make them unique.
func replacing(text string, from, to int, changed string) mutant {
	start := strings.LastIndexByte(text[:from], '\n') + 1
	end := to + strings.IndexByte(text[to:]+"\n", '\n')
	for start > 0 && strings.Count(text, text[start:end]) > 1 {
		start = strings.LastIndexByte(text[:start-1], '\n') + 1
	}
	return mutant{old: text[start:end], new: text[start:from] + changed + text[to:end]}
}
