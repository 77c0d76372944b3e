// Package jsonform constrains answers to JSON: any document, or the documents of a JSON schema. A [Grammar] is
// compiled once for a schema and a [Vocabulary]; [Grammar.New] gives the infer.Constraint of one answer, which masks
// all tokens that no document could continue with. So an answer that ends is a complete document, and a truncated
// answer is the start of one.
//
// # What documents look like
//
// Documents follow RFC 8259, in UTF-8. Where the RFC allows more than a reader wants, or text without end, there are
// limits:
//
//   - Between two tokens of JSON is nothing, one space, or a line break and an indentation of at most four spaces or
//     tabs for each open object and list. No more than a space comes before the document, and nothing after it.
//   - Objects and lists nest at most 64 deep.
//   - Numbers have at most 18 digits before the point, 18 after it and two in the exponent, so every one fits float64,
//     and every integer int64.
//   - Strings may escape any character by \u in values whose schema does not restrict them. Everywhere else they are
//     spelled as short as JSON can.
//
// # Schemas
//
// These keywords are supported, as in JSON Schema 2020-12, which are all that OpenAI's strict mode has except
// multipleOf:
//
//   - type, also as a list; enum, const; anyOf, oneOf; $ref into the schema itself, recursive ones as well, $defs and
//     definitions; allOf with one entry; nullable.
//   - properties, required, additionalProperties; items, prefixItems, minItems, maxItems.
//   - minLength, maxLength; pattern, a regular expression of Go's syntax, without lookaround, \b or flags; format:
//     date-time, date, time, duration, email, hostname, ipv4, ipv6, uuid.
//   - minimum, maximum, exclusiveMinimum, exclusiveMaximum, which are integers.
//
// Annotations such as title and description change nothing. Everything else is an error that names the keyword and its
// place. The following rules are narrower than JSON Schema, so every document still fits the schema:
//
//   - Properties come in the order of the schema. Optional ones may be left out.
//   - If there are properties, and no additionalProperties, there are no others. Additional ones follow the declared
//     ones.
//   - A schema without a type has the types that its keywords are for, or all if it has none.
//   - Values of enum and const are spelled as in the schema, without spaces.
//
// One rule is wider: oneOf means anyOf. Names of additional properties are not checked for duplicates.
//
// # How it works
//
// A schema becomes a nondeterministic automaton over bytes (automaton.go), which calls another one for each value
// inside it. All alternatives of a value start and end at the same bytes, because they are all JSON. So sets of its
// states can be tracked in lockstep with one stack, whatever the alternatives are: the automaton is a visibly
// pushdown one, which is determinized while it runs (node.go; see Alur and Madhusudan 2004, "Visibly Pushdown
// Languages"). States from which no document can be completed are never entered, so there are no dead ends. The mask
// is a walk over the trie of the vocabulary (mask.go), most of which is cached inside strings, as in Dong et al.
// 2024, "XGrammar".
package jsonform
