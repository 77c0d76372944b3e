package jinja

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// fieldSteps is the cost of a field in a format.
const fieldSteps = 8

// spec describes how a value is written into a field.
type spec struct {
	fill, align, sign, comma string
	alt, zero                bool
	width, precision         int // precision -1: not given
	kind                     string
}

// digits reads a number in a format.
func digits(s string) int {
	if len(s) > 9 {
		fail("a field of %.20s characters", s)
	}
	n, _ := strconv.Atoi(s)
	return n
}

var (
	percentField = regexp.MustCompile(`(?s)^%(\(([^)]*)\))?([-+ #0]*)(\*|\d*)(\.(\*|\d*))?[hlL]?(.)`)
	formatSpec   = regexp.MustCompile(`(?s)^((.)?([<>=^]))?([-+ ]?)(#?)(0?)(\d*)([,_]?)(\.(\d+))?([a-zA-Z%]?)$`)
	formatField  = regexp.MustCompile(`^([^.\[!:{}]*)((?:\.[^.\[!:{}]+|\[[^\]]*\])*)(![rsa])?(:(.*))?$`)
	fieldStep    = regexp.MustCompile(`\.[^.\[]+|\[[^\]]*\]`)
)

// percent returns Python's s % v.
func (in *interp) percent(s Str, v any) Str {
	values := []any{v}
	if l, is := v.(*List); is && l.kind == "tuple" {
		values = l.items
	}
	mapping, isMapping := v.(*Dict)
	_, missing := v.(Undefined)
	l, isList := v.(*List)
	spare := isMapping || missing || isList && l.kind == "list" // it has items to ask for, and so need not be used
	used := 0
	next := func() any {
		if used >= len(values) {
			fail("not enough arguments for format string")
		}
		used++
		return values[used-1]
	}
	b := builder{in: in}
	for at := 0; at < len(s.s); {
		i := strings.IndexByte(s.s[at:], '%')
		if i < 0 {
			b.add(s.cut(at, len(s.s)))
			break
		}
		b.add(s.cut(at, at+i))
		at += i
		in.step(fieldSteps)
		m := percentField.FindStringSubmatch(s.s[at:])
		if m == nil {
			fail("incomplete format")
		}
		at += len(m[0])
		if m[7] == "%" {
			b.add(own("%"))
			continue
		}
		p := spec{fill: " ", align: ">", precision: -1, kind: m[7]}
		p.flags(m[3])
		star := func(text string) int {
			if text == "*" {
				return toInt(next())
			}
			return digits(text)
		}
		p.width = star(m[4])
		if p.width < 0 {
			p.align, p.width = "<", -p.width
		}
		if m[5] != "" {
			p.precision = max(0, star(m[6]))
		}
		value := any(nil)
		if m[1] != "" {
			if !isMapping {
				fail("format requires a mapping")
			}
			found := false
			if value, found = mapping.get(m[2]); !found {
				fail("the format's mapping has no %q", m[2])
			}
			used = len(values)
		} else {
			value = next()
		}
		b.add(in.percentValue(p, value))
	}
	if used < len(values) && !spare {
		fail("not all arguments converted during string formatting")
	}
	return b.str()
}

func (p *spec) flags(flags string) {
	p.alt = strings.Contains(flags, "#")
	p.zero = strings.Contains(flags, "0")
	switch {
	case strings.Contains(flags, "+"):
		p.sign = "+"
	case strings.Contains(flags, " "):
		p.sign = " "
	}
	if strings.Contains(flags, "-") {
		p.align, p.zero = "<", false
	}
}

func (in *interp) percentValue(p spec, v any) Str {
	switch p.kind {
	case "s":
		return in.pad(p, in.str(v))
	case "a":
		return in.pad(p, in.ascii(v))
	case "r":
		b := builder{in: in}
		in.repr(&b, v, 0)
		return in.pad(p, b.str())
	case "c":
		if s, is := v.(Str); is && length(s.s) == 1 {
			return in.pad(p, s)
		}
		return in.pad(p, own(string(character(v))))
	}
	if !strings.Contains("diuoxXeEfFgG", p.kind) {
		fail("unsupported format character %q", p.kind)
	}
	n, is := number(v)
	if !is {
		undefinedFails(v)
		fail("%%%s format: a real number is required, not %s", p.kind, typeName(v))
	}
	if p.kind == "i" || p.kind == "u" {
		p.kind = "d"
	}
	if f, is := n.(float64); is && p.kind == "d" {
		n = truncated(f)
	}
	return in.padNumber(p, in.numberText(p, n))
}

func truncated(f float64) *big.Int {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		fail("cannot convert float %s to integer", floatText(f))
	}
	i, _ := big.NewFloat(f).Int(nil)
	return i
}

// numberText returns a number with its sign.
func (in *interp) numberText(p spec, n any) string {
	sign, text := p.sign, ""
	if sign == "-" {
		sign = ""
	}
	if i, is := n.(*big.Int); is && strings.Contains("dxXobn", p.kind) {
		if i.Sign() < 0 {
			sign = "-"
		}
		base := map[string]int{"d": 10, "n": 10, "x": 16, "X": 16, "o": 8, "b": 2}[p.kind]
		text = new(big.Int).Abs(i).Text(base)
		in.step(max(p.precision, 0))
		text = strings.Repeat("0", max(0, p.precision-len(text))) + text
		if p.alt && base != 10 {
			sign += "0" + p.kind
		}
		if p.kind == "X" {
			text = strings.ToUpper(text)
		}
	} else {
		f := toFloat(n)
		if math.Signbit(f) {
			sign, f = "-", -f
		}
		in.step(max(p.precision, 0))
		if text = floatFormat(p, f); p.kind == "E" || p.kind == "F" || p.kind == "G" {
			text = strings.ToUpper(text)
		}
	}
	if p.comma != "" {
		whole, rest := text, ""
		if i := strings.IndexAny(text, ".eE%"); i >= 0 {
			whole, rest = text[:i], text[i:]
		}
		var groups strings.Builder
		for i := range len(whole) {
			if i > 0 && (len(whole)-i)%3 == 0 {
				groups.WriteString(p.comma)
			}
			groups.WriteByte(whole[i])
		}
		text = groups.String() + rest
	}
	return sign + text
}

func floatFormat(p spec, f float64) string {
	precision := p.precision
	if precision < 0 {
		precision = 6
	}
	if precision > 1000 {
		fail("a precision of %d: at most 1000", precision)
	}
	switch {
	case math.IsInf(f, 0):
		return "inf"
	case math.IsNaN(f):
		return "nan"
	}
	switch kind := strings.ToLower(p.kind); kind {
	case "f":
		return strconv.FormatFloat(f, 'f', precision, 64)
	case "%":
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case "e":
		return strconv.FormatFloat(f, 'e', precision, 64)
	case "", "g", "n":
		if kind == "" && p.precision < 0 {
			return floatText(f)
		}
		return general(f, max(precision, 1), kind == "")
	}
	fail("unknown format code '%s' for a number", p.kind)
	return ""
}

// general writes format g: precision digits, without zeros at the end.
func general(f float64, precision int, point bool) string {
	text := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exp, _ := strings.Cut(text, "e")
	n, _ := strconv.Atoi(exp)
	strip := func(s string) string {
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	most := precision
	if point { // a digit after the point counts
		most--
	}
	if n < -4 || n >= most {
		return strip(mantissa) + "e" + exp
	}
	text = strip(strconv.FormatFloat(f, 'f', precision-1-n, 64))
	if point && !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// padNumber fills a field, with zeros after the sign.
func (in *interp) padNumber(p spec, text string) Str {
	if p.zero && p.align != "<" {
		p.align, p.fill = "=", "0"
	}
	if p.align == "=" {
		sign := len(text) - len(strings.TrimLeft(text, "+- "))
		if p.alt && strings.Contains("xXob", p.kind) {
			sign += len("0x")
		}
		n := max(0, p.width-len(text))
		return in.cat(own(text[:sign]), in.fill(n, own(p.fill)), own(text[sign:]))
	}
	p.precision = -1
	return in.pad(p, own(text))
}

// pad cuts a text to the precision and fills its field.
func (in *interp) pad(p spec, s Str) Str {
	if p.precision >= 0 {
		s = in.slice(s, []any{nil, integer(p.precision), nil}).(Str)
	}
	n := max(0, p.width-length(s.s))
	before := map[string]int{"<": 0, ">": n, "^": n / 2}[p.align]
	return in.cat(in.fill(before, own(p.fill)), s, in.fill(n-before, own(p.fill)))
}

// format is str.format.
func (in *interp) format(s Str, a *args) Str {
	b := builder{in: in}
	auto := 0
	for at := 0; at < len(s.s); {
		i := strings.IndexAny(s.s[at:], "{}")
		if i < 0 {
			b.add(s.cut(at, len(s.s)))
			break
		}
		b.add(s.cut(at, at+i))
		at += i
		c := s.s[at]
		if at+1 < len(s.s) && s.s[at+1] == c {
			b.add(s.cut(at, at+1))
			at += 2
			continue
		}
		n := strings.IndexByte(s.s[at:], '}')
		if c == '}' || n < 0 {
			fail("a single %c in a format string", c)
		}
		text := s.s[at+1 : at+n]
		in.pay(fieldSteps*stepBytes + slowly*n)
		m := formatField.FindStringSubmatch(text)
		if m == nil {
			fail("the format field {%.40s} is not supported", text)
		}
		at += n + 1
		b.add(in.formatValue(in.field(m, a, &auto), m[3], m[5]))
	}
	return b.str()
}

// field finds what a field in a format names.
func (in *interp) field(m []string, a *args, auto *int) any {
	name := m[1]
	if name == "" {
		name = strconv.Itoa(*auto)
		*auto++
	}
	var v any
	if n, err := strconv.Atoi(name); err == nil {
		if n < 0 || n >= len(a.list) {
			fail("a format string has no argument %d", n)
		}
		v = a.list[n]
	} else {
		found := false
		if v, found = a.named.get(name); !found {
			fail("a format string has no argument %q", name)
		}
	}
	for _, step := range fieldStep.FindAllString(m[2], -1) {
		if step[0] == '.' {
			v = in.attr(v, step[1:])
		} else if n, err := strconv.ParseUint(step[1:len(step)-1], 10, 31); err == nil {
			v = in.item(v, integer(int(n)))
		} else {
			v = in.item(v, own(step[1:len(step)-1]))
		}
	}
	return v
}

func (in *interp) formatValue(v any, conversion, format string) Str {
	switch conversion {
	case "!a":
		v = in.ascii(v)
	case "!r":
		b := builder{in: in}
		in.repr(&b, v, 0)
		v = b.str()
	case "!s":
		v = in.str(v)
	}
	m := formatSpec.FindStringSubmatch(format)
	if m == nil {
		fail("the format %.40q is not supported", format)
	}
	p := spec{fill: m[2], align: m[3], sign: m[4], alt: m[5] != "", zero: m[6] != "" && m[3] == "", width: digits(m[7]),
		comma: m[8], precision: -1, kind: m[11]}
	switch {
	case p.fill == "" && m[6] != "":
		p.fill = "0"
	case p.fill == "":
		p.fill = " "
	}
	if m[9] != "" {
		p.precision = digits(m[10])
	}
	n, isNumber := number(v)
	if _, isBool := v.(bool); isBool && format == "" {
		isNumber = false
	}
	if !isNumber {
		if p.kind != "" && p.kind != "s" || p.sign != "" {
			fail("the format %.40q is not for a %s", format, typeName(v))
		}
		if _, is := v.(Str); !is && format != "" {
			undefinedFails(v)
			fail("a %s has no format %q", typeName(v), format)
		}
		if p.align == "" {
			p.align = "<"
		}
		return in.pad(p, in.str(v))
	}
	if p.align == "" {
		p.align = ">"
	}
	if _, is := n.(*big.Int); is && p.kind == "" {
		p.kind = "d"
	}
	if _, is := n.(*big.Int); is && p.precision >= 0 && strings.Contains("dnxXob", p.kind) {
		fail("the format %.40q of an integer has a precision", format)
	}
	return in.padNumber(p, in.numberText(p, n))
}

// strftime is Python's datetime.strftime of now, with the names of the C locale.
func (in *interp) strftime(format string) string {
	b := builder{in: in}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.add(own(format[i : i+1]))
			continue
		}
		i++
		bare := false
		if format[i] == '-' && i+1 < len(format) {
			bare = true
			i++
		}
		in.step(fieldSteps)
		text := timeField(in.now, format[i])
		if bare {
			if cut := strings.TrimLeft(text, "0 "); cut != "" {
				text = cut
			} else {
				text = "0"
			}
		}
		b.add(own(text))
	}
	return b.str().s
}

var timeLayouts = map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06",
	'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'I': "03", 'p': "PM", 'e': "_2", 'F': "2006-01-02",
	'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
	'P': "pm", 'r': "03:04:05 PM"}

func timeField(t time.Time, c byte) string {
	if layout, is := timeLayouts[c]; is {
		return t.Format(layout)
	}
	switch c {
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay())
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'w':
		return strconv.Itoa(int(t.Weekday()))
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1)
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7)
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7)
	case 'V':
		_, week := t.ISOWeek()
		return fmt.Sprintf("%02d", week)
	case 'G', 'g':
		year, _ := t.ISOWeek()
		if c == 'g' {
			return fmt.Sprintf("%02d", year%100)
		}
		return strconv.Itoa(year)
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100)
	case 'k':
		return fmt.Sprintf("%2d", t.Hour())
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1)
	case 's':
		return strconv.FormatInt(t.Unix(), 10)
	case 'z', 'Z':
		return ""
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '%':
		return "%"
	}
	fail("strftime_now does not know %%%c", c)
	return ""
}

// character returns the character of a code point.
func character(v any) rune {
	n := toInt(v)
	if n < 0 || n > unicode.MaxRune {
		fail("%%c arg not in range(0x110000)")
	}
	return rune(n)
}
