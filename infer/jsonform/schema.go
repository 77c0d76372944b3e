package jsonform

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// keywords are the supported keywords, by the type of values that they are for.
var keywords = map[string][]string{
	"object":  {"properties", "required", "additionalProperties"},
	"array":   {"items", "prefixItems", "minItems", "maxItems"},
	"string":  {"minLength", "maxLength", "pattern", "format"},
	"number":  {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	"boolean": nil,
	"null":    nil,
}

// wholes are keywords that say all of a value; only type and nullable may be next to them, if that means something.
var wholes = []string{"$ref", "anyOf", "oneOf", "allOf", "enum", "const"}

// annotations are keywords that change nothing.
var annotations = strings.Fields(`$schema $id $anchor $comment $defs definitions title description default example
	examples deprecated readOnly writeOnly discriminator`)

const (
	maxAlternatives = 256  // of one value
	maxName         = 1024 // bytes of a property's name
)

// A compiler makes an automaton of a schema.
type compiler struct {
	automaton
	ascii bool
	known map[*value]int32 // choices; -1 while it is being found out
	any   int32            // the choice of all values; -1 until there is one
	plain map[string]int32 // leaves of types without keywords
	todo  []func() error   // the insides of objects and lists
}

// compile returns the automaton of a schema; its first leaf is the whole answer.
func compile(schema []byte, ascii bool, around Around) (*automaton, error) {
	root, err := parse(schema)
	if err != nil {
		return nil, err
	}
	c := compiler{ascii: ascii, known: map[*value]int32{}, any: -1, plain: map[string]int32{}}
	document := c.newLeaf()
	start := c.new(document)
	c.leaves[document].start = start
	begin := c.literal(start, around.Before)
	c.states[begin].border = true
	choice, err := c.choice(root)
	if err != nil {
		return nil, err
	}
	after := c.call(begin, choice, false)
	c.states[after].border = false
	c.states[c.literal(after, around.After)].final = true
	for len(c.todo) > 0 && c.err == nil {
		next := c.todo[0]
		c.todo = c.todo[1:]
		if err := next(); err != nil {
			return nil, err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	c.measure()
	if c.states[start].need > maxDepth {
		return nil, errors.New("schema: no document fits it, or only ones that nest deeper than 64: " +
			"a required property, or an item, refers to itself or has no possible value")
	}
	return &c.automaton, nil
}

// choice returns the kinds of values of a schema; nil has all kinds.
func (c *compiler) choice(v *value) (int32, error) {
	if v == nil || v.kind == 't' || v.kind == '{' && len(v.keys) == 0 {
		return c.anything()
	}
	id, is := c.known[v]
	switch {
	case is && id < 0:
		return 0, v.refuse("it refers to itself without an object or a list between")
	case is:
		return id, nil
	case v.kind == 'f':
		return c.newChoice(v), nil
	case v.kind != '{':
		return 0, v.refuse("must be a schema: an object, true or false")
	}
	c.known[v] = -1
	leaves, err := c.kinds(v)
	if err != nil {
		return 0, err
	}
	if slices.Sort(leaves); len(leaves) > maxAlternatives {
		return 0, v.refuse("more than %d alternatives", maxAlternatives)
	}
	return c.newChoice(v, slices.Compact(leaves)...), nil
}

func (c *compiler) newChoice(v *value, leaves ...int32) int32 {
	id := int32(len(c.choices))
	c.choices = append(c.choices, leaves)
	c.known[v] = id
	return id
}

func (c *compiler) anything() (int32, error) {
	if c.any < 0 {
		c.any = c.newChoice(nil)
		var leaves []int32
		for name := range keywords {
			if name == "integer" {
				continue
			}
			leaf, err := c.ofType(name, &value{kind: '{'})
			if err != nil {
				return 0, err
			}
			leaves = append(leaves, leaf)
		}
		slices.Sort(leaves)
		c.choices[c.any] = leaves
	}
	return c.any, nil
}

// kinds returns the leaves of a schema that is an object with keywords.
func (c *compiler) kinds(v *value) (leaves []int32, err error) {
	whole := ""
	for _, key := range v.keys {
		switch {
		case slices.Contains(annotations, key) || key == "type" || key == "nullable":
		case slices.Contains(wholes, key):
			if whole != "" {
				return nil, v.refuse("%s next to %s is not supported: use one of them", key, whole)
			}
			whole = key
		case key == "uniqueItems" && v.get(key).kind == 'f':
		case !slices.ContainsFunc(typeNames, func(t string) bool { return slices.Contains(keywords[t], key) }):
			return nil, v.refuse("the keyword %q is not supported: leave it out, and say it in the description", key)
		}
	}
	types, err := v.types()
	if err != nil {
		return nil, err
	}
	if whole == "" {
		for _, name := range types {
			leaf, err := c.ofType(name, v)
			if err != nil {
				return nil, err
			}
			leaves = append(leaves, leaf)
		}
	} else if leaves, err = c.whole(v, whole, types); err != nil {
		return nil, err
	}
	if null := v.get("nullable"); null != nil && null.kind == 't' {
		leaves = append(leaves, c.literals("null"))
	}
	return leaves, nil
}

// typeNames are the names of all types.
var typeNames = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// types returns the types of a schema: those that it names, or those that its keywords are for; without either, all.
func (v *value) types() (names []string, err error) {
	t := v.get("type")
	if t == nil {
		for _, name := range typeNames {
			if name != "integer" && slices.ContainsFunc(keywords[name], func(key string) bool { return v.get(key) != nil }) {
				names = append(names, name)
			}
		}
		if names == nil {
			names = slices.DeleteFunc(slices.Clone(typeNames), func(name string) bool { return name == "integer" })
		}
		return names, nil
	}
	list := []*value{t}
	if t.kind == '[' {
		list = t.values
	}
	for _, t := range list {
		if t.kind != '"' || !slices.Contains(typeNames, t.text) {
			return nil, t.refuse("%q is no type: use one of %s", t.text, strings.Join(typeNames, ", "))
		}
		names = append(names, t.text)
	}
	return names, nil
}

// whole returns the leaves of a schema with one of wholes.
func (c *compiler) whole(v *value, keyword string, types []string) (leaves []int32, err error) {
	for _, key := range v.keys {
		constant := keyword == "enum" || keyword == "const"
		if !slices.Contains(annotations, key) && key != keyword && key != "nullable" && !(constant && key == "type") {
			return nil, v.refuse("%s next to %s is not supported: put it into the schemas of %s", key, keyword, keyword)
		}
	}
	at := v.get(keyword)
	list := []*value{at}
	switch keyword {
	case "const":
		return c.constants(v, list, types)
	case "$ref":
		target := v.find(at.text)
		if at.kind != '"' || target == nil {
			return nil, at.refuse("%q is not in the schema: refer to one of its parts, such as #/$defs/name", at.text)
		}
		list[0] = target
	default:
		if at.kind != '[' || len(at.values) == 0 {
			return nil, at.refuse("must be a list that is not empty")
		}
		list = at.values
	}
	if keyword == "enum" {
		return c.constants(v, list, types)
	}
	if keyword == "allOf" && len(list) > 1 {
		return nil, at.refuse("allOf of several schemas is not supported: write one schema that says all")
	}
	for _, one := range list {
		choice, err := c.choice(one)
		if err != nil {
			return nil, err
		}
		leaves = append(leaves, c.choices[choice]...)
	}
	return leaves, nil
}

// constants returns the leaves of the values that are of one of the types.
func (c *compiler) constants(at *value, list []*value, types []string) (leaves []int32, err error) {
	var texts []string
	for _, v := range list {
		kind := map[byte]string{'{': "object", '[': "array", '"': "string", '0': "number", 't': "boolean", 'f': "boolean",
			'n': "null"}[v.kind]
		whole := kind == "number" && !strings.ContainsAny(v.text, ".eE") && slices.Contains(types, "integer")
		if !slices.Contains(types, kind) && !whole {
			continue
		}
		switch v.kind {
		case '{', '[':
			choice, err := c.choice(constant(v))
			if err != nil {
				return nil, err
			}
			leaves = append(leaves, c.choices[choice]...)
		case '"':
			texts = append(texts, quote(v.text, c.ascii))
		case '0':
			texts = append(texts, v.text)
		default:
			texts = append(texts, map[byte]string{'t': "true", 'f': "false", 'n': "null"}[v.kind])
		}
	}
	if len(texts) > 0 {
		leaves = append(leaves, c.literalLeaf(texts...))
	}
	if len(leaves) == 0 {
		return nil, at.refuse("none of its values has its type")
	}
	return leaves, nil
}

func (c *compiler) literals(texts ...string) int32 {
	name := strings.Join(texts, " ")
	leaf, is := c.plain[name]
	if !is {
		leaf = c.literalLeaf(texts...)
		c.plain[name] = leaf
	}
	return leaf
}

// ofType returns the leaf of the values of one type.
func (c *compiler) ofType(name string, v *value) (leaf int32, err error) {
	plain := !slices.ContainsFunc(keywords[name], func(key string) bool { return v.get(key) != nil })
	if leaf, is := c.plain[name]; plain && is {
		return leaf, nil
	}
	switch name {
	case "object", "array":
		leaf = c.newLeaf()
		start := c.new(leaf)
		c.leaves[leaf].container, c.leaves[leaf].start = true, start
		inside := c.object
		if name == "array" {
			inside = c.array
		}
		c.todo = append(c.todo, func() error { return inside(v, start) })
	case "string":
		leaf, err = c.stringOf(v)
	case "boolean":
		leaf = c.literals("true", "false")
	case "null":
		leaf = c.literals("null")
	default:
		leaf, err = c.numberOf(v, name == "integer")
	}
	if plain {
		c.plain[name] = leaf
	}
	return leaf, err
}

func (c *compiler) stringOf(v *value) (int32, error) {
	lowest, highest, err := v.limits("minLength", "maxLength")
	if err != nil {
		return 0, err
	}
	pattern, format := v.get("pattern"), v.get("format")
	if pattern == nil && format == nil {
		return c.stringLeaf(lowest, highest), nil
	}
	if pattern != nil && format != nil || lowest > 0 || highest >= 0 {
		return 0, v.refuse("pattern, format and limits of length next to each other are not supported: " +
			"put them into the pattern")
	}
	at, text := pattern, ""
	if pattern != nil {
		text = pattern.text
	} else {
		at, text = format, formats[format.text]
		if text == "" {
			return 0, at.refuse("the format %q is not supported: use date-time, date, time, duration, email, hostname, "+
				"ipv4, ipv6, uuid or a pattern", format.text)
		}
	}
	if at.kind != '"' {
		return 0, at.refuse("must be a string")
	}
	leaf, err := c.patternLeaf(text, c.ascii)
	if err != nil {
		return 0, at.refuse("the pattern is not supported: %v", err)
	}
	return leaf, nil
}

// limits reads two keywords that are numbers of things; highest is -1 without a limit.
func (v *value) limits(lowKey, highKey string) (lowest, highest int32, err error) {
	highest = -1
	for _, key := range []string{lowKey, highKey} {
		at := v.get(key)
		if at == nil {
			continue
		}
		n, err := strconv.ParseInt(at.text, 10, 32)
		if at.kind != '0' || err != nil || n < 0 {
			return 0, 0, at.refuse("must be an integer that is not negative, and less than 2147483648")
		}
		if key == lowKey {
			lowest = int32(n)
		} else {
			highest = int32(n)
		}
	}
	if highest >= 0 && lowest > highest {
		return 0, 0, v.refuse("%s %d is greater than %s %d", lowKey, lowest, highKey, highest)
	}
	return lowest, highest, nil
}

func (c *compiler) numberOf(v *value, integer bool) (int32, error) {
	b := unbounded
	for _, key := range keywords["number"] {
		at := v.get(key)
		if at == nil {
			continue
		}
		x, err := strconv.ParseFloat(at.text, 64)
		if at.kind != '0' || err != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<53 {
			return 0, at.refuse("only integers of less than 2^53 are supported as limits of numbers")
		}
		n := int64(x)
		switch key {
		case "minimum":
			if b.lo < n {
				b.lo, b.above = n, false
			}
		case "exclusiveMinimum":
			if b.lo <= n {
				b.lo, b.above = n, true
			}
		case "maximum":
			if b.hi > n {
				b.hi, b.below = n, false
			}
		case "exclusiveMaximum":
			if b.hi >= n {
				b.hi, b.below = n, true
			}
		}
	}
	return c.numberLeaf(integer, b), nil
}
