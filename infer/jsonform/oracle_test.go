package jsonform

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mismatch returns why a value is not in a schema, or "", for schemas as they are in the tests.
func mismatch(root, schema, v any) string {
	s, is := schema.(map[string]any)
	if !is {
		return map[bool]string{false: "nothing fits false"}[schema.(bool)]
	}
	if s["$id"] != nil {
		root = schema
	}
	if v == nil && s["nullable"] == true {
		return ""
	}
	if ref, is := s["$ref"].(string); is {
		return mismatch(root, at(root, ref), v)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list, is := s[key].([]any)
		if is && !slices.ContainsFunc(list, func(s any) bool { return mismatch(root, s, v) == "" }) {
			return "none of " + key
		}
	}
	if t := s["type"]; t != nil {
		names, is := t.([]any)
		if !is {
			names = []any{t}
		}
		if !slices.Contains(names, typeOf(v)) && !(typeOf(v) == "integer" && slices.Contains(names, "number")) {
			return fmt.Sprintf("%v is not of type %v", v, t)
		}
	}
	list, is := s["enum"].([]any)
	if is && !slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, v) }) {
		return fmt.Sprintf("%v is not in enum", v)
	}
	if x, is := s["const"]; is && !reflect.DeepEqual(x, v) {
		return fmt.Sprintf("%v is not const", v)
	}
	number := func(key string, otherwise float64) float64 {
		if x, is := s[key].(float64); is {
			return x
		}
		return otherwise
	}
	within := func(n int, low, high string) bool {
		return float64(n) >= number(low, 0) && float64(n) <= number(high, math.Inf(1))
	}
	switch v := v.(type) {
	case float64:
		if v < number("minimum", v) || v > number("maximum", v) ||
			v <= number("exclusiveMinimum", math.Inf(-1)) || v >= number("exclusiveMaximum", math.Inf(1)) {
			return fmt.Sprintf("%v is out of range", v)
		}
	case string:
		pattern, _ := s["pattern"].(string)
		format, _ := s["format"].(string)
		if !within(utf8.RuneCountInString(v), "minLength", "maxLength") || !regexp.MustCompile(pattern).MatchString(v) ||
			!regexp.MustCompile(formats[format]).MatchString(v) {
			return fmt.Sprintf("%q", v)
		}
	case []any:
		prefix, _ := s["prefixItems"].([]any)
		if !within(len(v), "minItems", "maxItems") {
			return fmt.Sprintf("%d items", len(v))
		}
		for i, x := range v {
			schema := s["items"]
			if i < len(prefix) {
				schema = prefix[i]
			}
			if schema != nil && mismatch(root, schema, x) != "" {
				return fmt.Sprintf("item %d: %s", i, mismatch(root, schema, x))
			}
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			schema := properties[name]
			if schema == nil {
				schema = s["additionalProperties"]
			}
			if schema != nil && mismatch(root, schema, v[name]) != "" {
				return name + ": " + mismatch(root, schema, v[name])
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, is := v[name.(string)]; !is {
				return fmt.Sprintf("%v is missing", name)
			}
		}
	}
	return ""
}

func at(v any, ref string) any {
	for name := range strings.SplitSeq(ref, "/") {
		if name != "#" {
			v = v.(map[string]any)[name]
		}
	}
	return v
}

func typeOf(v any) any {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	}
	return "object"
}
