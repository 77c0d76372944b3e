package jinja

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// prettyWidth is the length of a line of pprint.
const prettyWidth = 80

// pretty is Python's pprint.pformat: a value on one line if it fits, else one item on each line, with sorted keys.
func pretty(in *interp, a *args) any {
	a.want("pprint", 1, "value")
	p := printer{in, builder{in: in}}
	p.format(in.ordered(a.list[0], 0), 0, 0, 1)
	return p.b.str()
}

// ordered is v with the keys of all mappings in order.
func (in *interp) ordered(v any, depth int) any {
	in.visit(v, depth)
	switch v := v.(type) {
	case *List:
		out := &List{v.kind, make([]any, len(v.items))}
		in.made(out)
		for i, e := range v.items {
			out.items[i] = in.ordered(e, depth+1)
		}
		return out
	case *Dict:
		keys := slices.Clone(v.keys)
		sort.SliceStable(keys, func(i, j int) bool {
			x, y := keyKind(keys[i]), keyKind(keys[j])
			if x != y || x == 0 {
				return x < y
			}
			return in.less(keys[i], keys[j], "<")
		})
		out := &Dict{}
		for _, k := range keys {
			e, _ := in.get(v, k)
			in.set(out, k, in.ordered(e, depth+1))
		}
		return out
	}
	return v
}

// keyKind orders keys of different kinds as pprint does, by the names of Python's types.
func keyKind(k any) int {
	if k == nil {
		return 0
	}
	if _, is := number(k); is {
		return 1
	}
	if _, is := k.(Str); is {
		return 2
	}
	return 3
}

type printer struct {
	in *interp
	b  builder
}

func (p *printer) repr(v any) Str {
	b := builder{in: p.in}
	p.in.repr(&b, v, 0)
	return b.str()
}

// format writes v from the column indent on, and leaves allowance columns for what follows. level is the depth, from 1.
func (p *printer) format(v any, indent, allowance, level int) {
	rep := p.repr(v)
	if length(rep.s) <= prettyWidth-indent-allowance {
		p.b.add(rep)
		return
	}
	switch v := v.(type) {
	case Str:
		p.text(v, rep, indent, allowance, level)
		return
	case *Dict:
		p.b.add(own("{"))
		for i, k := range v.keys {
			p.newLine(i, indent+1)
			key := p.repr(k)
			p.b.add(key)
			p.b.add(own(": "))
			p.format(v.values[i], indent+1+length(key.s)+2, after(i, v.keys, allowance+1), level+1)
		}
		p.b.add(own("}"))
		return
	case *List:
		marks := map[string][2]string{"list": {"[", "]"}, "tuple": {"(", ")"}}
		mark, is := marks[v.kind]
		if !is {
			break
		}
		if v.kind == "tuple" && len(v.items) == 1 {
			mark[1] = ",)"
		}
		p.b.add(own(mark[0]))
		for i, e := range v.items {
			p.newLine(i, indent+1)
			p.format(e, indent+1, after(i, v.items, allowance+len(mark[1])), level+1)
		}
		p.b.add(own(mark[1]))
		return
	}
	p.b.add(rep)
}

// newLine starts the line of item i.
func (p *printer) newLine(i, indent int) {
	if i > 0 {
		p.b.add(own(",\n" + strings.Repeat(" ", indent)))
	}
}

// after returns the columns that follow item i: a comma, or what follows the last one.
func after(i int, items []any, last int) int {
	if i == len(items)-1 {
		return last
	}
	return 1
}

// text writes a string in several quoted parts, cut behind line breaks and white space.
func (p *printer) text(s, rep Str, indent, allowance, level int) {
	if level == 1 {
		indent, allowance = indent+1, allowance+1
	}
	lines := p.in.lines(s, true)
	var parts []Str
	for i, l := range lines {
		line, last := l.(Str), i == len(lines)-1
		room := prettyWidth - indent
		if last {
			room -= allowance
		}
		if rep = p.repr(line); length(rep.s) <= room {
			parts = append(parts, rep)
			continue
		}
		parts = p.words(parts, line, prettyWidth-indent, last, allowance)
	}
	if len(parts) < 2 {
		p.b.add(rep)
		return
	}
	if level == 1 {
		p.b.add(own("("))
	}
	for i, part := range parts {
		if i > 0 {
			p.b.add(own("\n" + strings.Repeat(" ", indent)))
		}
		p.b.add(part)
	}
	if level == 1 {
		p.b.add(own(")"))
	}
}

// words adds a line that is too long, cut behind white space.
func (p *printer) words(parts []Str, line Str, room int, last bool, allowance int) []Str {
	from, at := 0, 0
	for at < len(line.s) {
		word := strings.IndexFunc(line.s[at:], IsSpace)
		end := len(line.s)
		if word >= 0 {
			if end = strings.IndexFunc(line.s[at+word:], func(r rune) bool { return !IsSpace(r) }); end < 0 {
				end = len(line.s)
			} else {
				end += at + word
			}
		}
		if last && end == len(line.s) {
			room -= allowance
		}
		if length(p.repr(line.cut(from, end)).s) > room && from < at {
			parts = append(parts, p.repr(line.cut(from, at)))
			from = at
		}
		at = end
	}
	return append(parts, p.repr(line.cut(from, at)))
}

var (
	webAddress = regexp.MustCompile(`(?is)^((https?://|www\.)(([\pL\pN_%-]+\.)+)?([a-z]{2,63}|xn--[\pL\pN_%]{2,59})|` +
		`([\pL\pN_%-]{2,63}\.)+(com|net|int|edu|gov|org|info|mil)|` +
		`(https?://)((\p{Nd}{1,3}(\.\p{Nd}{1,3}){3})|(\[([\p{Nd}a-f]{0,4}:){2}([\p{Nd}a-f]{0,4}:?){1,6}])))` +
		`(:\p{Nd}{1,5})?([/?#].*)?$`)
	mailAddress = regexp.MustCompile(`(?s)^.+@[\pL\pN_][\pL\pN_.-]*\.[\pL\pN_]+$`)
	leading     = regexp.MustCompile(`^([(<]|&lt;)+`)
	trailing    = regexp.MustCompile(`([)>.,\n]|&gt;)+$`)
	scheme      = regexp.MustCompile(`^([\pL\pN_.+-]{2,}:(/){0,2})$`)
)

// urlize makes links of the addresses in a text.
func urlize(in *interp, a *args) any {
	has := a.want("urlize", 1, "value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes")
	s := in.str(a.list[0])
	text := in.escape(s).s
	limit := -1
	if has[1] && a.list[1] != nil {
		limit = toInt(a.list[1])
	}
	rel := []string{"noopener"}
	if truth(a.list[2]) {
		rel = append(rel, "nofollow")
	}
	if has[4] && a.list[4] != nil {
		in.spend(slowly * len(toStr(a.list[4]).s)) // the words
		rel = append(rel, strings.Fields(toStr(a.list[4]).s)...)
	}
	slices.Sort(rel)
	attributes := ` rel="` + in.escape(own(strings.Join(slices.Compact(rel), " "))).s + `"`
	sources := []Str{s}
	for _, v := range a.list[3:5] {
		if from, is := v.(Str); is {
			sources = append(sources, from)
		}
	}
	if has[3] && a.list[3] != nil && toStr(a.list[3]).s != "" {
		attributes += ` target="` + in.escape(toStr(a.list[3])).s + `"`
	}
	var schemes []string
	if has[5] && a.list[5] != nil {
		for _, e := range in.iterate(a.list[5]) {
			if schemes = append(schemes, toStr(e).s); !scheme.MatchString(toStr(e).s) {
				fail("%s is not a valid URI scheme prefix", in.reprText(e))
			}
		}
	}
	out := builder{in: in}
	for len(text) > 0 {
		space := len(text) - len(strings.TrimLeftFunc(text, IsSpace))
		out.add(own(text[:space]))
		text = text[space:]
		end := strings.IndexFunc(text, IsSpace)
		if end < 0 {
			end = len(text)
		}
		in.step(len(schemes) + end)
		in.spend(len(attributes))
		out.add(own(linked(text[:end], attributes, limit, schemes)))
		text = text[end:]
	}
	return from(out.str().s, sources...)
}

// linked is a word, as a link if it is an address.
func linked(word, attributes string, limit int, schemes []string) string {
	head := leading.FindString(word)
	middle := word[len(head):]
	tail := trailing.FindString(middle)
	middle = middle[:len(middle)-len(tail)]
	for _, pair := range [][2]string{{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}} {
		open := strings.Count(middle, pair[0])
		if open <= strings.Count(middle, pair[1]) {
			continue
		}
		end := 0
		for range min(open, strings.Count(tail, pair[1])) {
			end += strings.Index(tail[end:], pair[1]) + len(pair[1])
		}
		middle, tail = middle+tail[:end], tail[end:]
	}
	link := func(to, shown, attributes string) string {
		return head + `<a href="` + to + `"` + attributes + `>` + shown + `</a>` + tail
	}
	shown := middle
	if limit >= 0 && length(middle) > limit {
		shown = middle[:offset(middle, limit)] + "..."
	}
	mail, isMail := strings.CutPrefix(middle, "mailto:")
	switch {
	case webAddress.MatchString(middle):
		to := middle
		if !strings.HasPrefix(middle, "https://") && !strings.HasPrefix(middle, "http://") {
			to = "https://" + middle
		}
		return link(to, shown, attributes)
	case isMail && mailAddress.MatchString(mail):
		return link(middle, mail, "")
	case !strings.HasPrefix(middle, "www.") && !strings.HasPrefix(middle, "@") && !strings.Contains(middle, ":") &&
		mailAddress.MatchString(middle):
		return link("mailto:"+middle, middle, "")
	}
	for _, s := range schemes {
		if middle != s && strings.HasPrefix(middle, s) {
			middle = `<a href="` + middle + `"` + attributes + `>` + middle + `</a>`
		}
	}
	return cmp.Or(head+middle+tail, word)
}
