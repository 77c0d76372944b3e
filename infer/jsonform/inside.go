package jsonform

import "slices"

// object adds the inside of the objects of a schema, after the state start.
func (c *compiler) object(v *value, start int32) error {
	properties, additional := v.get("properties"), v.get("additionalProperties")
	if properties == nil {
		properties = &value{kind: '{'}
	}
	if properties.kind != '{' {
		return properties.refuse("must be an object of schemas")
	}
	names, schemas := slices.Clip(properties.keys), slices.Clip(properties.values)
	list, required, err := v.required()
	if err != nil {
		return err
	}
	for _, name := range list {
		if properties.get(name) == nil {
			names, schemas = append(names, name), append(schemas, additional)
		}
	}
	leaf := c.states[start].leaf
	begin, end := c.newBorder(leaf), c.newFinal(leaf)
	c.byte(start, '{', begin)
	before := c.newBorder(leaf) // a property or a later one
	c.free(begin, before)
	afters := []int32{begin} // afters[i] is after i properties
	for i, name := range names {
		if len(name) > maxName {
			return v.refuse("the name of the property %.60q… has %d bytes: at most %d are supported", name, len(name),
				maxName)
		}
		choice, err := c.choice(schemas[i])
		if err != nil {
			return err
		}
		later := c.newBorder(leaf)
		if !required[name] {
			c.free(before, later)
		}
		key := c.newBorder(leaf)
		c.free(before, key)
		after := c.member(c.literal(key, quote(name, c.ascii)), choice)
		c.byte(after, ',', later)
		afters = append(afters, after)
		if c.err != nil {
			return nil
		}
		before = later
	}
	for i := len(names); i >= 0; i-- { // the object may end if no later property is required
		c.byte(afters[i], '}', end)
		if i > 0 && required[names[i-1]] {
			break
		}
	}
	if additional == nil && len(names) > 0 {
		return nil
	}
	choice, err := c.choice(additional)
	if err != nil {
		return err
	}
	body, colon := c.new(leaf), c.new(leaf)
	c.text(body, colon, false)
	if len(names) > 0 {
		body = c.except(names, body, c.ascii)
	}
	c.byte(before, '"', body)
	after := c.member(colon, choice)
	c.byte(after, ',', before)
	c.byte(after, '}', end)
	return nil
}

// required returns the names of properties that have to be there, and the same as a set.
func (v *value) required() (names []string, set map[string]bool, err error) {
	list := v.get("required")
	if list == nil {
		return nil, nil, nil
	}
	if list.kind != '[' {
		return nil, nil, list.refuse("must be a list of names")
	}
	set = map[string]bool{}
	for _, name := range list.values {
		if name.kind != '"' {
			return nil, nil, name.refuse("must be a name")
		}
		if !set[name.text] {
			names = append(names, name.text)
		}
		set[name.text] = true
	}
	return names, set, nil
}

// member adds what follows a name: a colon and a value. It returns the border after that.
func (c *compiler) member(name, choice int32) (after int32) {
	c.states[name].border = true
	value := c.newBorder(c.states[name].leaf)
	c.byte(name, ':', value)
	return c.call(value, choice, false)
}

// array adds the inside of the lists of a schema, after the state start.
func (c *compiler) array(v *value, start int32) error {
	lowest, highest, err := v.limits("minItems", "maxItems")
	if err != nil {
		return err
	}
	leaf := c.states[start].leaf
	prefix, items := v.get("prefixItems"), v.get("items")
	if items != nil && items.kind == '[' {
		return items.refuse("a list of schemas is not supported: it is called prefixItems now")
	}
	if prefix == nil {
		prefix = &value{kind: '['}
	}
	if prefix.kind != '[' {
		return prefix.refuse("must be a list of schemas")
	}
	c.leaves[leaf].min, c.leaves[leaf].max = lowest, highest
	after, end := c.newBorder(leaf), c.newFinal(leaf)
	c.byte(start, '[', after)
	for i := 0; i <= len(prefix.values); i++ {
		schema := items
		if i < len(prefix.values) {
			schema = prefix.values[i]
		}
		choice, err := c.choice(schema)
		if err != nil {
			return err
		}
		if i >= int(lowest) {
			c.byte(after, ']', end)
		}
		item := c.newBorder(leaf)
		if i > 0 {
			c.edge(after, ',', ',', more, item)
		} else if highest != 0 {
			c.free(after, item)
		}
		next := c.call(item, choice, true)
		if i == len(prefix.values) { // all others
			c.edge(next, ',', ',', more, item)
			c.edge(next, ']', ']', enough, end)
		}
		after = next
	}
	return nil
}
