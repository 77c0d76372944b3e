package teacher

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"restyle/voice"
)

var (
	// denying matches a word that denies what follows it, and up to three words of that.
	denying = regexp.MustCompile(`(?i)\b(not?|never|cannot|without|neither|nor|\pL+n['’]t)\b((?:[ ,]+[\pL'’]+){0,4})`)
	// denies matches what may express that something is not so.
	denies = regexp.MustCompile(`(?i)\b(?:not?|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|\pL+n['’]t|` +
		`avoid\w*|refrain\w*|forb[ia]d\w*|prohibit\w*|fail\w*|refus\w*|unable|impossible|lack\w*|free|stop\w*|except\w*|` +
		`ignor\w*|disregard\w*|declin\w*|shut|hardly|rarely|barely|only|instead|prevent\w*|resist\w*|against|beyond|too|` +
		`far from|ban(?:s|ned)?|illegal|invalid|bad|mistake\w*|wrong\w*|nonsense|skip\w*|spare|beware|careful|least|` +
		`leave|omit\w*|deny|denies|denied|myth|false|exclu\w*|reject\w*|keep (?:\w+ ){0,3}(?:away|out|off)|zero|unless|` +
		`until|\w+less|rather|non|absent|absence|missing|abstain\w*|cease\w*|drop|hands off|sorry|unfortunately)\b`)
	// noDenial matches words before which "not" and the like deny nothing.
	noDenial = regexp.MustCompile(`(?i)^[ ,]*(?:only|just|necessarily|merely|simply|least|mention|to mention|sure|` +
		`matter|doubt|why|worry|more|less|later|fewer|earlier|sooner|longer than|one|problem)\b`)
	// unDone matches words such as unused and non-refundable.
	unDone = regexp.MustCompile(`(?i)\b(?:un|non-?)(\pL{2,}(?:ed|[ai]ble|known|safe))\b`)
	// yesNo matches an answer that is yes or no.
	yesNo     = regexp.MustCompile(`(?i)(?:^|[.!?\n])\s*(yes|no)\s*[.!:;,–—]`)
	opposites = []string{"un", "in", "im", "dis", "non", "mis"}
	clauseEnd = regexp.MustCompile(`[.!?;:]+(?:\s|$)|\n`)
)

// denialsKept compares yes and no, and finds what an English answer denies. If the rewrite mentions that at all, it
// must do so at least once in a sentence that denies something. If it does not, it has to deny something anywhere.
func denialsKept(c *candidate) (bool, string) {
	source := c.facts()[0].plain
	if !speaksEnglish(source) {
		return true, "not checked: not English"
	}
	var clauses []map[string]bool // the meanings of the rewrite's sentences
	var denied []bool
	anywhere := false
	prose := emphasis.ReplaceAllString(c.prose, " ")
	sentences := clauseEnd.Split(strings.ToLower(prose), -1)
	for _, clause := range clauseEnd.Split(prose, -1) {
		clauses = append(clauses, meanings(clause))
		denied = append(denied, denies.MatchString(clause))
		anywhere = anywhere || denied[len(denied)-1]
	}
	if m := yesNo.FindStringSubmatch(source); m != nil && strings.HasPrefix(strings.TrimSpace(source), m[1]) {
		said := yesNo.FindAllStringSubmatch(prose, -1)
		same := func(s []string) bool { return strings.EqualFold(s[1], m[1]) }
		if len(said) > 0 && !slices.ContainsFunc(said, same) {
			return false, fmt.Sprintf("the answer is %q, and it says %q", m[1], said[0][1])
		}
	}
	n := 0
	for _, m := range unDone.FindAllStringSubmatch(source, -1) {
		n++
		mentioned, kept := false, false
		for i, sentence := range sentences {
			kept = kept || hasWord(sentence, strings.ToLower(m[0]))
			if hasWord(sentence, strings.ToLower(m[1])) {
				mentioned, kept = true, kept || denied[i]
			}
		}
		if mentioned && !kept {
			return false, fmt.Sprintf("the answer says %q, and it says %q", m[0], m[1])
		}
	}
	for _, m := range denying.FindAllStringSubmatch(source, -1) {
		if noDenial.MatchString(m[2]) || strings.EqualFold(m[1], "no") && !strings.HasPrefix(m[2], " ") {
			continue
		}
		n++
		word, stem := deniedWord(strings.TrimPrefix(m[2], " longer"))
		mentioned, kept := false, false
		for i, clause := range clauses {
			if stem != "" && clause[stem] {
				mentioned, kept = true, kept || denied[i]
			}
			kept = kept || slices.ContainsFunc(opposites, func(prefix string) bool { return clause[cut(prefix+stem)] })
		}
		if mentioned && !kept || !mentioned && !kept && !anywhere {
			return false, fmt.Sprintf("the answer says %q, and it does not: keep that this is denied",
				strings.TrimSpace(m[1]+" "+word))
		}
	}
	return true, fmt.Sprintf("denials: %d", n)
}

// deniedWord returns the first word with a meaning, and its stem.
func deniedWord(text string) (word, stem string) {
	for _, w := range strings.Fields(text) {
		if w = strings.Trim(w, ","); !voice.SmallWord(strings.ToLower(w)) {
			for stem := range meanings(w) {
				return w, stem
			}
		}
	}
	return "", ""
}
