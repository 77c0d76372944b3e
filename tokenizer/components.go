package tokenizer

import (
	"fmt"
	"slices"
	"sync"
)

// component is a normalizer, pre-tokenizer, post-processor or decoder, with the fields of all known types.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`
	Decoders      []component `json:"decoders"`

	Pattern struct{ String, Regex *string } `json:"pattern"` // Split, Replace
	Content string                          `json:"content"` // Replace, Strip

	Behavior         string `json:"behavior"` // Split
	Invert           bool   `json:"invert"`
	AddPrefixSpace   *bool  `json:"add_prefix_space"` // ByteLevel, Metaspace
	UseRegex         *bool  `json:"use_regex"`        // ByteLevel
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string `json:"replacement"` // Metaspace
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`
	Prepend          string `json:"prepend"`
	Start            int    `json:"start"` // Strip
	Stop             int    `json:"stop"`

	Single        []templatePiece `json:"single"` // TemplateProcessing
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

type templatePiece struct {
	Sequence, SpecialToken *struct {
		ID string `json:"id"`
	}
}

// flatten appends the members of nested sequences to out in order. It appends none if c is nil.
func flatten(out []component, c *component, members func(*component) []component) []component {
	if c == nil {
		return out
	}
	if c.Type != "Sequence" {
		return append(out, *c)
	}
	list := members(c)
	for i := range list {
		out = flatten(out, &list[i], members)
	}
	return out
}

// maxGrowth is the maximum number of bytes that one byte of text may become. A space that is written as ▁ with another
// before it, if the normalizer does so twice, becomes 12. Without a limit a file of a few KB could need any amount of
// memory, because its Replaces multiply.
const maxGrowth = 64

// maxComponents is the largest number of normalizers, pre-tokenizers or decoders: every text passes through all of
// them.
const maxComponents = 100

// maxTemplate is the largest number of tokens that a template may add to a text: it repeats them for every one.
const maxTemplate = 64

// checkGrowth refuses components that together could make a text more than maxGrowth times as long.
func checkGrowth(part string, list []component) error {
	grown := 1.0 // maximum bytes per byte of text so far
	for _, c := range list {
		switch c.Type {
		case "NFC":
			grown *= 3 // the maximum for UTF-8 (unicode.org/faq/normalization.html)
		case "Prepend":
			grown += float64(len(c.Prepend))
		case "Replace":
			if c.Pattern.String != nil && len(c.Content) > len(*c.Pattern.String) {
				grown *= float64(len(c.Content)) / float64(len(*c.Pattern.String))
			}
		case "Metaspace":
			grown = (grown + 1) * float64(len(c.Replacement))
		}
		if grown > maxGrowth {
			return fmt.Errorf("%s: up to its %s it could make a text more than %d times as long, as no published one does: "+
				"this file is damaged or hostile",
				part, c.Type, maxGrowth)
		}
	}
	return nil
}

// maxExpansion is the number of bytes that all tokens together may become, by normalizers and decoders, per byte of
// the files. One token may become longer, but not all of them.
const maxExpansion = 4

// budget is the number of bytes that the tokens of a file may still become.
type budget int

func (b *budget) spend(n int) error {
	if *b -= budget(n); *b < 0 {
		return fmt.Errorf("its normalizer and decoder make its tokens more than %d times as long as its files: this file is "+
			"damaged or hostile", maxExpansion)
	}
	return nil
}

func readNormalizer(list []component) ([]rewrite, error) {
	var steps []rewrite
	for _, c := range list {
		switch c.Type {
		case "NFC":
			steps = append(steps, nfc)
		case "Prepend":
			steps = append(steps, prepend(c.Prepend))
		case "Replace":
			old, err := c.replaced()
			if err != nil {
				return nil, fmt.Errorf("normalizer: %w", err)
			}
			steps = append(steps, replaceAll(old, c.Content))
		default:
			return nil, fmt.Errorf("normalizer %q is not supported: NFC, Prepend, Replace and Sequence are", c.Type)
		}
	}
	return steps, nil
}

// replaced returns the text that a Replace replaces.
func (c *component) replaced() (string, error) {
	switch {
	case c.Pattern.Regex != nil:
		return "", fmt.Errorf("the pattern %q of Replace is not supported: only a string is", *c.Pattern.Regex)
	case c.Pattern.String == nil || *c.Pattern.String == "":
		return "", fmt.Errorf("a Replace has no pattern")
	}
	return *c.Pattern.String, nil
}

// readPreTokenizer reads the components that change the text, which must come first, and those that split it. It
// reports whether the vocabulary is byte-level. Components after ByteLevel split its characters, one for each byte.
func (t *Tokenizer) readPreTokenizer(list []component) (byteLevel bool, err error) {
	sets := sync.OnceValue(newCharSets)
	for i, c := range list {
		switch c.Type {
		case "Split", "Digits", "Punctuation":
			split, err := c.split(sets, byteLevel)
			if err != nil {
				return false, err
			}
			t.splits = append(t.splits, split)
		case "ByteLevel":
			if byteLevel {
				return false, fmt.Errorf("pre_tokenizer: ByteLevel after ByteLevel is not supported")
			}
			if byteLevel = true; c.AddPrefixSpace != nil && *c.AddPrefixSpace {
				if i > 0 {
					return false, fmt.Errorf("pre_tokenizer: add_prefix_space after another pre-tokenizer is not supported")
				}
				t.preparation = append(t.preparation, metaspace(" ", "always"))
			}
			if c.UseRegex == nil || *c.UseRegex {
				t.splits = append(t.splits, patterns[GPT2Pattern])
			}
		case "Metaspace":
			if i > 0 {
				return false, fmt.Errorf("pre_tokenizer: Metaspace after another pre-tokenizer is not supported")
			}
			scheme, err := c.scheme()
			if err != nil {
				return false, fmt.Errorf("pre_tokenizer: %w", err)
			}
			t.preparation = append(t.preparation, metaspace(c.Replacement, scheme))
			if c.Split == nil || *c.Split {
				t.splits = append(t.splits, beforeEvery(c.Replacement))
			}
		default:
			return false, fmt.Errorf("pre_tokenizer %q is not supported: Split, Digits, Punctuation, ByteLevel, Metaspace and "+
				"Sequence are", c.Type)
		}
	}
	return byteLevel, nil
}

// split returns the splitter of a Split, Digits or Punctuation, for text before or after ByteLevel.
func (c *component) split(sets func() *charSets, afterByteLevel bool) (splitter, error) {
	switch {
	case c.Type == "Digits" && !afterByteLevel:
		return digits(c.IndividualDigits), nil
	case c.Type == "Digits":
		return runsOf(sets(), tables()["numeric"], !c.IndividualDigits, true)
	case c.Type == "Punctuation" && (c.Behavior == "Isolated" || c.Behavior == "" || c.Behavior == "Contiguous"):
		return runsOf(sets(), tables()["punctuation"], c.Behavior == "Contiguous", afterByteLevel)
	case c.Type == "Punctuation":
		return nil, fmt.Errorf("pre_tokenizer: a Punctuation with behavior %q is not supported: Isolated and Contiguous are",
			c.Behavior)
	case c.Pattern.Regex == nil:
		return nil, fmt.Errorf("pre_tokenizer: a Split without a Regex is not supported")
	}
	pattern := *c.Pattern.Regex
	isolated, inverted := c.Behavior == "Isolated" && !c.Invert, c.Behavior == "Removed" && c.Invert
	split, known := patterns[pattern]
	all := pattern != trailingPattern // then removing what is between the matches changes nothing
	if !known || afterByteLevel {
		x, err := parseRegex(pattern, sets())
		if err != nil {
			return nil, fmt.Errorf("pre_tokenizer: the split pattern %q is not supported: %w", pattern, err)
		}
		if all = x.matchesAll(); afterByteLevel {
			x.sets = x.sets.ofBytes()
		}
		split = x.split
	}
	if isolated || inverted && all {
		return split, nil
	}
	return nil, fmt.Errorf("pre_tokenizer: a Split with behavior %q and invert %v is not supported: Isolated and false "+
		"are", c.Behavior, c.Invert)
}

// runsOf returns a splitter that splits off characters of a class, each by itself or runs of them.
func runsOf(sets *charSets, ranges []rune, runs, afterByteLevel bool) (splitter, error) {
	bit, err := sets.add(fmt.Sprint(ranges), class{ranges: ranges})
	if afterByteLevel {
		sets = sets.ofBytes()
	}
	a := atom{set: bit, min: 1, max: 1}
	if runs {
		a.max = unbounded
	}
	return (&regex{sets, [][]atom{{a}}}).split, err
}

// scheme returns the prepend_scheme of a Metaspace. Older files have add_prefix_space instead.
func (c *component) scheme() (string, error) {
	scheme := c.PrependScheme
	if scheme == "" {
		scheme = "always"
	}
	if c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
		if c.PrependScheme != "" && scheme != "never" {
			return "", fmt.Errorf("a Metaspace has add_prefix_space false and prepend_scheme %q: make them agree", scheme)
		}
		scheme = "never"
	}
	if c.Replacement == "" || !slices.Contains([]string{"always", "first", "never"}, scheme) {
		return "", fmt.Errorf("a Metaspace with replacement %q and prepend_scheme %q is not supported", c.Replacement, scheme)
	}
	return scheme, nil
}

// readTemplate returns the ids that the post-processor puts before and after a text.
func readTemplate(c *component, v *vocab) (before, after []int32, err error) {
	found := false
	for _, c := range flatten(nil, c, func(c *component) []component { return c.Processors }) {
		switch {
		case c.Type == "ByteLevel": // affects only offsets
		case c.Type == "TemplateProcessing" && !found:
			found = true
			if before, after, err = c.template(v); err != nil {
				return nil, nil, fmt.Errorf("post_processor: %w", err)
			}
		default:
			return nil, nil, fmt.Errorf("post_processor %q is not supported here: one TemplateProcessing is, and ByteLevel",
				c.Type)
		}
	}
	return before, after, nil
}

func (c *component) template(v *vocab) (before, after []int32, err error) {
	texts := 0
	for _, p := range c.Single {
		switch {
		case p.Sequence != nil && p.Sequence.ID == "A":
			texts++
		case p.SpecialToken != nil:
			token, ok := c.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("the template names %q, which is not in its special_tokens", p.SpecialToken.ID)
			}
			for _, id := range token.IDs {
				if !v.has(id) {
					return nil, nil, fmt.Errorf("the template's %q has id %d, which no token has", p.SpecialToken.ID, id)
				}
			}
			if len(before)+len(after)+len(token.IDs) > maxTemplate {
				return nil, nil, fmt.Errorf("the template adds more than %d tokens to a text, as no published one does: "+
					"this file is damaged or hostile", maxTemplate)
			}
			if texts == 0 {
				before = append(before, token.IDs...)
			} else {
				after = append(after, token.IDs...)
			}
		default:
			return nil, nil, fmt.Errorf("the template for one text has an item that is neither the text nor a special token")
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("the template for one text has the text %d times: must be once", texts)
	}
	return before, after, nil
}
