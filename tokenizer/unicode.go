package tokenizer

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

//go:embed unicode.txt
var unicodeText string

// tables has the numbers of unicode.txt by the name above them. Lines that start with # say what they mean.
var tables = sync.OnceValue(func() map[string][]rune {
	all := map[string][]rune{}
	name := ""
	for line := range strings.Lines(unicodeText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if before, is := strings.CutSuffix(word, ":"); is {
				name = before
				continue
			}
			n, err := strconv.ParseInt(word, 16, 32)
			if err != nil {
				panic(err)
			}
			all[name] = append(all[name], rune(n))
		}
	}
	return all
})
