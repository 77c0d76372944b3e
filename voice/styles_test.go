package voice

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestBuiltinStyles checks that the built-in styles are varied enough for thousands of answers.
func TestBuiltinStyles(t *testing.T) {
	for _, test := range []struct {
		name                                           string
		openers, devices, examples, skeletons, phrases int
	}{
		{"passive-aggressive", 48, 14, 24, 14, 350},
		{"pirate", 30, 10, 10, 14, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := Builtin(test.name)
			expect.OK(t, err)
			phrases := 0
			for _, pool := range s.pools {
				phrases += len(pool)
			}
			for _, pool := range s.openings {
				phrases += len(pool)
				if len(pool) < 2 && test.name == Default {
					t.Errorf("one phrase for the opener %q", Read(pool[0].literal()).Opener())
				}
			}
			t.Logf("%d openers, %d devices, %d examples, %d skeletons, %d phrases", len(s.Openers), len(s.Devices),
				len(s.Examples), len(s.Skeletons), phrases)
			if len(s.Openers) < test.openers || len(s.Devices) < test.devices || len(s.Examples) < test.examples ||
				len(s.Skeletons) < test.skeletons || phrases < test.phrases {
				t.Error("fewer than wanted")
			}
			if s.About == "" || s.System == "" || len(s.banned) == 0 {
				t.Error("no about line, system prompt or banned words")
			}
			// A model that always chooses the most likely phrase must still be in the voice, so in the default style each
			// phrase has a cue.
			for block, pool := range s.pools {
				if test.name != Default || block == "comment" {
					continue
				}
				for _, p := range pool {
					if s.Tone(Read(p.literal())).Score == 0 {
						t.Errorf("[%s] has no word of the lexicon in %q", block, p.literal())
					}
				}
			}
			for opener, pool := range s.openings {
				for _, p := range pool {
					if test.name == Default && s.Tone(Read(p.literal())).Score == 0 {
						t.Errorf("opener %q has no word of the lexicon in %q", opener, p.literal())
					}
				}
			}
			sighs := 0
			for _, o := range s.Openers {
				if strings.HasPrefix(o, "sigh") {
					sighs++
				}
			}
			if sighs > 1 {
				t.Errorf("%d openers begin with sigh", sighs)
			}
			seen := map[string]bool{}
			for _, sentence := range bankSentences(s) {
				if seen[sentence] && len(strings.Fields(sentence)) > 2 {
					t.Errorf("two phrases share the sentence %q", sentence)
				}
				seen[sentence] = true
				if m := metaWords.FindString(sentence); m != "" {
					t.Errorf("%q in %q", m, sentence)
				}
			}
			var openers, devices []string
			for _, e := range s.Examples {
				openers = append(openers, Read(e.Rewrite).Opener())
				devices = append(devices, e.Device)
				code := strings.FieldsFunc(e.Code, func(r rune) bool { return !wordRune(r) })
				for _, inline := range inlineCode.FindAllString(e.Rewrite, -1) {
					if name := strings.Trim(inline, "`"); !slices.Contains(code, name) && !slices.Contains(pythonWords, name) {
						t.Errorf("example %q has %s, which is not in its code", e.Device, inline)
					}
				}
				if m := metaWords.FindString(e.Rewrite); m != "" {
					t.Errorf("%q in example %q", m, e.Device)
				}
			}
			for what, list := range map[string][]string{"opener": openers, "device": devices} {
				slices.Sort(list)
				if len(slices.Compact(list)) != len(s.Examples) {
					t.Errorf("examples share an %s", what)
				}
			}
		})
	}
}

// bankSentences returns the sentences of all phrases, with empty slots.
func bankSentences(s *Style) []string {
	var out []string
	for _, pool := range s.pools {
		for _, p := range pool {
			out = append(out, Read(p.literal()).Sentences()...)
		}
	}
	for _, pool := range s.openings {
		for _, p := range pool {
			out = append(out, Read(p.literal()).Sentences()...)
		}
	}
	return out
}

// TestLexicon_HasEveryCue checks that the lexicon has every cue that earlier work on this voice measured, with its
// weight.
func TestLexicon_HasEveryCue(t *testing.T) {
	s, err := Builtin(Default)
	expect.OK(t, err)
	for weight, cues := range map[int]string{
		1: "sigh, fine, wow, obviously, clearly, basic, simple, elementary, bother, waste, seriously, exhausted, come on, " +
			"suppose", 2: "oh joy, spoon-feed, hold your hand, read the documentation, read the docs, lazy, kidding me, " +
			"rocket " +
			"science, ad nauseam, spell it out",
	} {
		for _, cue := range strings.Split(cues, ", ") {
			ts := tokens(cue, -1)
			got := 0
			for _, c := range s.lexicon[ts[0].word] {
				if len(c.words) == len(ts) && startsWith(ts, c.words) {
					got = c.weight
				}
			}
			if got != weight {
				t.Errorf("cue %q has weight %d, want %d", cue, got, weight)
			}
		}
	}
}
