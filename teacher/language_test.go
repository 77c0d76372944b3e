package teacher

import (
	"strings"
	"testing"

	"restyle/dataset"
)

// TestOtherLanguages audits rows whose code is not Python, as it is and with one byte of the code changed.
func TestOtherLanguages(t *testing.T) {
	row := sample(func(*dataset.Rewritten) {})
	for tag, code := range map[string]string{
		"javascript": "function add(a, b) {\n\treturn a + b; // '''\n}\nconsole.log(add(1, 2));",
		"sql":        "SELECT name, COUNT(*) AS n\n  FROM users\n WHERE age > 30\n GROUP BY name;",
		"c":          "#include <stdio.h>\r\nint main(void) {\r\n  printf(\"%d\\n\", 1);\r\n  return 0;\r\n}",
		"html":       "<ul>\n  <li>`one`</li>\n  <li>```two```</li>\n</ul>\n\n<!-- the end -->",
		"yaml":       "on:\n  push:\n    branches: [main]\njobs:\n  test:\n    runs-on: ubuntu-latest\n",
		"bash":       "#!/bin/bash\nfor f in *.txt; do\n  mv \"$f\" \"${f%.txt}.md\"\ndone",
	} {
		for _, answer := range []string{code, "So:\n````" + tag + "\n" + code + "\n````\nDone."} {
			source := row
			source.OutputOriginal = answer
			parts := splitIn(tag, answer)
			text := "Oh, of course, how could I possibly refuse such a remarkable request from somebody so busy?\n\n" +
				"Obviously nobody read the documentation, so I suppose that I have to. Here you are, with a sigh:\n\n" +
				"[[CODE_1]]\n\nI am sure that it is clearly beyond my remit, but naturally somebody had to do it, " +
				"and evidently it was me again, as it usually is around here. You are welcome, I suppose."
			var err error
			if source.OutputPassiveAggressive, err = parts.join(text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(source.OutputPassiveAggressive, tag+"\n"+parts.Blocks[0]+"\n`") {
				t.Errorf("%s: the code is not in %q", tag, source.OutputPassiveAggressive)
			}
			failed := func(language string) (ids string) {
				for _, k := range Audit(passiveAggressive(t), language, source) {
					if !k.Pass {
						ids += k.ID + " "
					}
				}
				return ids
			}
			fenced := answer != code
			if ids := failed(tag); ids != "" {
				t.Errorf("%s fails %s in %q", tag, ids, source.OutputPassiveAggressive)
			}
			if ids := failed(AnyLanguage); fenced && ids != "" || !fenced && !strings.Contains(ids, "S1") {
				t.Errorf("%s as any language, fenced %v, fails %q", tag, fenced, ids)
			}
			if ids := failed(Python); !strings.Contains(ids, "S1") {
				t.Errorf("%s is taken for Python: %q", tag, ids)
			}
			source.OutputPassiveAggressive = strings.Replace(source.OutputPassiveAggressive, parts.Blocks[0],
				strings.Replace(parts.Blocks[0], " ", "  ", 1), 1)
			if ids := failed(tag); !strings.Contains(ids, "A3") {
				t.Errorf("%s: a space more in the code passes: %q", tag, ids)
			}
		}
	}
	for language, answers := range map[string][]string{
		"sql": {
			"The capital of France is Paris, which lies on the Seine and has two million people.",
			"First you select the rows.\nThen you group them by name, and count.\nThat is all (really).",
			"```sql\nSELECT name FROM users WHERE age > 30;\nDone, I think, with all of it.",
		},
		AnyLanguage: {"SELECT name FROM users WHERE age > 30 ORDER BY name;", "```js\nconst a = 1;\n"},
	} {
		for _, answer := range answers {
			c := newCandidate(passiveAggressive(t), "How?", splitIn(language, answer), "")
			if pass, why := sourceIsCode(c); pass {
				t.Errorf("%s: %q passes: %s", language, answer, why)
			}
		}
	}
}

func TestLanguageOf(t *testing.T) {
	for tag, want := range map[string]string{"": "", " ": "", "SQL": "sql", "py": Python, "JS title=x": "javascript",
		"c++": "cpp", "any": AnyLanguage, "zig": "zig"} {
		if got := LanguageOf(tag); got != want {
			t.Errorf("%q: %q", tag, got)
		}
	}
}

// TestPromptNamesNoPython checks that a prompt for another language does not ask for Python's keywords.
func TestPromptNamesNoPython(t *testing.T) {
	p := &Prompt{Style: passiveAggressive(t), Question: "How?", Parts: splitIn("sql", "SELECT 1;"), Language: "sql"}
	if system := p.Messages()[0].Content; strings.Contains(system, "Python keywords") ||
		!strings.Contains(system, "for keywords of its language") {
		t.Error(system)
	}
	p.Language = Python
	if system := p.Messages()[0].Content; !strings.Contains(system, "for Python keywords") {
		t.Error(system)
	}
}
