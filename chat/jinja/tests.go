package jinja

import (
	"math/big"
	"strings"
)

const testNames = " boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan " +
	"gt in integer iterable le lessthan lower lt mapping ne none number odd sameas sequence string test true " +
	"undefined upper == != < <= > >= "

func hasTest(name string) bool { return strings.Contains(testNames, " "+name+" ") }

// sameTests are other names of comparisons.
var sameTests = map[string]string{"eq": "==", "equalto": "==", "ne": "!=", "gt": ">", "greaterthan": ">", "lt": "<",
	"lessthan": "<", "ge": ">=", "le": "<=", "in": "in", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">",
	">=": ">="}

// test computes "v is name".
func (in *interp) test(name string, v any, rest []any) bool {
	if !hasTest(name) {
		fail("no test named '%s'", name)
	}
	in.step(1)
	in.read(v)
	for _, r := range rest {
		in.read(r)
	}
	op, binary := sameTests[name]
	binary = binary || name == "sameas" || name == "divisibleby"
	if want := map[bool]int{true: 1}[binary]; len(rest) != want {
		fail("the test %s takes %d arguments, not %d", name, want, len(rest))
	}
	switch {
	case op != "":
		return in.compare(op, v, rest[0])
	case name == "divisibleby":
		return in.equal(in.arithmetic("%", v, rest[0]), integer(0))
	case name == "sameas":
		return in.same(v, rest[0])
	}
	return in.kind(name, v)
}

// same computes Python's is, for which values that are equal and of one kind are one.
func (in *interp) same(a, b any) bool {
	switch a.(type) {
	case *List, *Dict, *Range:
		return a == b
	}
	return typeName(a) == typeName(b) && in.equal(a, b)
}

func (in *interp) kind(name string, v any) bool {
	s, isStr := v.(Str)
	_, isBool := v.(bool)
	_, isInt := v.(*big.Int)
	_, isFloat := v.(float64)
	_, isDict := v.(*Dict)
	_, isUndefined := v.(Undefined)
	switch name {
	case "defined":
		return !isUndefined
	case "undefined":
		return isUndefined
	case "none":
		return v == nil
	case "boolean":
		return isBool
	case "true":
		return v == true
	case "false":
		return v == false
	case "integer":
		return isInt
	case "float":
		return isFloat
	case "number":
		return isBool || isInt || isFloat
	case "string":
		return isStr
	case "mapping":
		return isDict
	case "iterable", "sequence":
		return sequenceTest(name, v)
	case "callable":
		_, is := v.(*Func)
		return is || isUndefined
	case "escaped":
		return s.safe
	case "filter":
		return hasFilter(s.s)
	case "test":
		return hasTest(s.s)
	case "odd", "even":
		return in.equal(in.arithmetic("%", v, integer(2)), integer(map[string]int{"odd": 1}[name]))
	}
	text := in.str(v).s
	in.pay(slowly * len(text))
	if name == "lower" {
		return isLower(text)
	}
	return isUpper(text)
}

func sequenceTest(name string, v any) bool {
	switch v := v.(type) {
	case Str, *Dict, *Range, Undefined, *group:
		return true
	case *List:
		return name == "iterable" || v.kind == "list" || v.kind == "tuple"
	case *generator, *loopVar:
		return name == "iterable"
	}
	return false
}
