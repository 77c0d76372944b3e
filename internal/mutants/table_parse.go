package main

// parseMutants are the faults of what keeps a file from costing more than its size: limits of counts that multiply.
//
//nolint:lll // one fault, one line
var parseMutants = []mutant{
	{"parse/template-any-length", "tokenizer/components.go", "len(before)+len(after)+len(token.IDs) > maxTemplate", "false", "./tokenizer -run Products|FuzzParse"},
	{"parse/template-pieces-each", "tokenizer/components.go", "len(before)+len(after)+len(token.IDs) > maxTemplate", "len(token.IDs) > maxTemplate", "./tokenizer -run Products|FuzzParse"},
	{"parse/components-any-number", "tokenizer/document.go", "if _, is := place.(**component); is {", "if false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/components-commas-free", "tokenizer/document.go", `bytes.Count(part, []byte("{")) + bytes.Count(part, []byte(","))`, `bytes.Count(part, []byte("{"))`, "./tokenizer -run Products|FuzzParse"},
	{"parse/normalizers-any-number", "tokenizer/tokenizer.go", "n > maxComponents {", "false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/decoded-any-length", "tokenizer/decode.go", "if err := rest.spend(len(d.texts[id])); err != nil {", "if err := rest.spend(0); err != nil {", "./tokenizer -run Products|FuzzParse"},
	{"parse/normalized-any-length", "tokenizer/tokenizer.go", "if err := rest.spend(len(a.Content)); err != nil {", "if err := rest.spend(0); err != nil {", "./tokenizer -run Products|FuzzParse"},
	{"parse/token-any-length", "tokenizer/vocab.go", "if len(e.text) > maxToken {", "if false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/added-any-length", "tokenizer/vocab.go", "if len(a.Content) > maxAdded {", "if false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/pattern-any-length", "tokenizer/regex.go", "if len(pattern) > maxPattern {", "if false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/pattern-alternatives", "tokenizer/regex.go", "sets.alternatives > maxAlternatives {", "false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/pattern-choices", "tokenizer/regex.go", "if choices(atoms) > maxChoices {", "if false {", "./tokenizer -run Products|FuzzParse"},
	{"parse/pattern-choices-once", "tokenizer/regex.go", "n *= a.max - a.min + 1", "n = max(n, a.max-a.min+1)", "./tokenizer -run Products|FuzzParse"},
	{"parse/single-word-after", "tokenizer/added.go", "to == len(text) ||", "after >= 0 ||", "./tokenizer"},
	{"parse/single-word-before", "tokenizer/added.go", "from == 0 ||", "before >= 0 ||", "./tokenizer"},
	{"parse/single-word-squared", "tokenizer/added.go", "(from == 0 || t[before]&word == 0)", "(t.runBack(text, from, 0, word) == from || before < 0)", "./tokenizer -run Products"},
	{"parse/unpacked-any-size", "dataset/source.go", "u.left < 0 {", "false {", "./dataset -run Bombs"},
	{"parse/unpacked-last-read", "dataset/source.go", "u.left -= int64(n)", "u.left = min(u.left, maxUnpacked(0)) - int64(n) + 1<<20", "./dataset -run Bombs"},
	{"parse/window-any-size", "dataset/source.go", "min(8<<20+64*uint64(size), 128<<20)", "uint64(512<<20)", "./dataset -run Bombs"},
	{"parse/csv-any-columns", "dataset/csv.go", "if m.values >= maxItems {", "if false {", "./dataset -run Bombs"},
	{"parse/csv-columns-of-file", "dataset/csv.go", "\t\t\tm.values = 0\n", "", "./dataset -run CSV"},
	{"parse/csv-columns-in-quotes", "dataset/csv.go", "case m.quoted:", "case false:", "./dataset -run CSV"},
	{"parse/keys-any-number", "dataset/json.go", "if len(keys) == maxItems {", "if false {", "./dataset -run Bombs"},
	{"parse/values-any-number", "dataset/json.go", "if values > maxValues {", "if values < 0 {", "./dataset -run Bombs"},
	{"parse/values-without-lists", "dataset/json.go", "case ',':\n\t\t\tvalues++", "case ',':", "./dataset -run Bombs"},
	{"parse/messages-any-number", "dataset/messages.go", "if len(items) > maxItems {", "if false {", "./dataset -run Bombs"},
	{"parse/calls-of-last-only", "dataset/messages.go", "calls = append(calls, inside)", "calls = []string{inside, inside}", "./dataset"},
	{"parse/rows-any-size", "dataset/child.go", "err == nil && c.left < 0", "false", "./dataset -run Bombs"},
	{"parse/address-space-ignored", "internal/memory/memory.go", "if n, found := addressSpace(root); found {", "if n, found := addressSpace(root); false && found {", "./internal/memory"},
	{"parse/address-space-all-free", "internal/memory/memory.go", "return limit - used<<10, err == nil && known", "return limit, err == nil && known && used > 0", "./internal/memory"},
}
