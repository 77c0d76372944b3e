package tokenizer

import "strings"

// The supported split patterns, as tokenizer.json writes them.
const (
	// GPT2Pattern is the pattern of GPT-2, which ByteLevel applies by itself; SmolLM2 uses it after Digits.
	GPT2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	// Llama3Pattern is the pattern of Llama 3, with numbers in groups of up to three digits. OpenAI's cl100k has the same.
	Llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Qwen2Pattern is the pattern of Qwen2, Qwen2.5 and Qwen3: Llama 3's with one digit per pre-token.
	Qwen2Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// A splitter returns the length of the first pre-token of a text that is not empty. A pre-token depends only on the
// text from its start on, so calling the splitter again after each splits the whole text.
type splitter func(t *classTable, text string) int

// patterns maps the text of a pattern to its splitter. What parseRegex reads needs no entry, but is slower.
var patterns = map[string]splitter{
	GPT2Pattern: gpt2PreToken,
	`'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: gpt2PreToken, // the same, written shorter

	Llama3Pattern: digitsOf(3),
	`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: digitsOf(3),

	Qwen2Pattern: digitsOf(1),

	trailingPattern: trailingSpace,
}

// trailingPattern splits off the white space at the end of lines; one of DeepSeek's patterns.
const trailingPattern = `\s+$`

// trailingSpace returns the first match of trailingPattern, or the text before the first one.
func trailingSpace(t *classTable, text string) int {
	for i := 0; i < len(text); {
		from := t.runWithout(text, i, space)
		end := t.run(text, from, space)
		match := end
		if end < len(text) {
			match = from + max(0, strings.LastIndexByte(text[from:end], '\n')) // $ is also before a line break
		}
		switch {
		case match > from && from > 0:
			return from
		case match > from:
			return match
		}
		i = end
	}
	return len(text)
}

// digitsOf returns the splitter of Llama3Pattern with numbers in groups of up to n digits.
func digitsOf(n int) splitter {
	return func(t *classTable, text string) int { return llama3PreToken(t, text, n) }
}

// llama3PreToken returns the first match of Llama3Pattern, or, with one digit, of Qwen2Pattern. The comments quote the
// alternative of the pattern for each branch.
func llama3PreToken(t *classTable, text string, maxDigits int) int {
	class, size := t.at(text, 0)
	switch {
	case class&letter != 0: // \p{L}+
		return t.run(text, size, letter)
	case class&number != 0: // \p{N}{1,3}
		end := size
		for range maxDigits - 1 {
			if end == len(text) {
				break
			}
			class, size := t.at(text, end)
			if class&number == 0 {
				break
			}
			end += size
		}
		return end
	case text[0] == '\'': // (?i:'s|'t|'re|'ve|'m|'ll|'d)
		if n := contraction(text, true); n > 0 {
			return n
		}
	}
	if size < len(text) && text[0] != '\r' && text[0] != '\n' { // [^\r\n\p{L}\p{N}]?\p{L}+
		if next, n := t.at(text, size); next&letter != 0 {
			return t.run(text, size+n, letter)
		}
	}
	if end := t.otherRun(text, class, size); end > 0 { // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
		for end < len(text) && (text[end] == '\r' || text[end] == '\n') {
			end++
		}
		return end
	}
	end := t.run(text, size, space)
	if end == 1 {
		return 1 // the most common case; the rest would return the same
	}
	if newline := strings.LastIndexAny(text[:end], "\r\n"); newline >= 0 { // \s*[\r\n]+
		return newline + 1
	}
	return spaces(text, size, end)
}

// gpt2PreToken returns the first match of GPT2Pattern.
func gpt2PreToken(t *classTable, text string) int {
	class, size := t.at(text, 0)
	if text[0] == '\'' {
		if n := contraction(text, false); n > 0 {
			return n
		}
	}
	from := 0
	if text[0] == ' ' && len(text) > 1 { // the " ?" before letters, numbers and the rest
		from = 1
		class, size = t.at(text, 1)
	}
	switch {
	case class&letter != 0:
		return t.run(text, from+size, letter)
	case class&number != 0:
		return t.run(text, from+size, number)
	case class&space == 0:
		return t.runWithout(text, from+size, letter|number|space)
	}
	_, size = t.at(text, 0)
	return spaces(text, size, t.run(text, size, space))
}

// contraction returns the length of 's 't 're 've 'm 'll or 'd at the start of text, or 0. With fold, upper case also
// counts, and so does the long ſ, which folds to s.
func contraction(text string, fold bool) int {
	at := func(i int) byte {
		if i >= len(text) {
			return 0
		}
		if c := text[i]; !fold || c < 'A' || 'Z' < c {
			return c
		}
		return text[i] + 'a' - 'A'
	}
	switch at(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if at(2) == 'e' {
			return 3
		}
	case 'l':
		if at(2) == 'l' {
			return 3
		}
	}
	if fold && strings.HasPrefix(text[1:], "ſ") {
		return 1 + len("ſ")
	}
	return 0
}

// otherRun returns the end of ` ?[^\s\p{L}\p{N}]+` at the start of text, or 0. class and size describe its first
// character.
func (t *classTable) otherRun(text string, class uint8, size int) int {
	if text[0] == ' ' && len(text) > 1 {
		class, size = t.at(text, 1)
		size++
	}
	if class&(letter|number|space) != 0 {
		return 0
	}
	return t.runWithout(text, size, letter|number|space)
}

// spaces returns the end of `\s+(?!\S)|\s+` at the start of text. The run of white space ends at end, and its first
// character has size bytes. If text follows the run, it takes the run's last character, unless that is the only one.
func spaces(text string, size, end int) int {
	if end == len(text) || end == size {
		return end
	}
	last := end - 1
	for text[last]&0xC0 == 0x80 {
		last--
	}
	return last
}

// digits splits off digits: each by itself, or runs of them.
func digits(each bool) splitter {
	return func(t *classTable, text string) int {
		class, size := t.at(text, 0)
		switch {
		case class&numeric == 0:
			return t.runWithout(text, size, numeric)
		case each:
			return size
		}
		return t.run(text, size, numeric)
	}
}

// beforeEvery splits before every mark.
func beforeEvery(mark string) splitter {
	return func(_ *classTable, text string) int {
		if text[0] == mark[0] && strings.HasPrefix(text, mark) {
			if n := strings.Index(text[len(mark):], mark); n >= 0 {
				return len(mark) + n
			}
		} else if n := strings.Index(text, mark); n >= 0 {
			return n
		}
		return len(text)
	}
}

// beforeMark splits before a mark that comes after anything but a mark.
func beforeMark(_ *classTable, text string) int {
	i := 0
	for strings.HasPrefix(text[i:], mark) {
		i += len(mark)
	}
	if n := strings.Index(text[i:], mark); n >= 0 {
		return i + n
	}
	return len(text)
}
