package sidebyside

import (
	"regexp"
	"strings"
)

var (
	htmlStart = regexp.MustCompile(`<([A-Za-z/!?])`)
	codeSpan  = regexp.MustCompile("`+")
	// fenceStart matches a line that opens a fence, at most three spaces from the margin.
	fenceStart = regexp.MustCompile("^( {0,3})(`{3,}[^`]*|~{3,}.*)$")
	// fenceLike matches a line that opens or closes a fence for some reader of Markdown, such as in a list.
	fenceLike = regexp.MustCompile("^[ \t>*+-]*([0-9]+[.)])?[ \t>*+-]*(```|~~~)")
)

// escape returns text with each < that could start a tag, comment or declaration as &lt;, because a viewer that renders
// HTML would run or load what a model wrote.
func escape(text string) string { return htmlStart.ReplaceAllString(text, "&lt;$1") }

// inert does what [escape] does, for Markdown. It keeps text unchanged that every reader of Markdown takes for code.
// From the first point where readers may differ, it escapes everything.
func inert(text string) string {
	var fence string // the characters that opened the current fence, or ""
	var indent int   // spaces before them
	sure := true
	paired := true // each run of backticks in the paragraph so far had its partner in the same line
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, " ")
		margin := len(line) - len(rest)
		switch {
		case !sure:
			lines[i] = escape(line)
		case fence != "":
			run := rest[:len(rest)-len(strings.TrimLeft(rest, fence[:1]))]
			if margin <= 3 && len(run) >= len(fence) && strings.Trim(rest[len(run):], " \t") == "" {
				fence = ""
			} else if rest != "" && margin < indent { // the end of a list, and of the fence in the list
				sure = false
				lines[i] = escape(line)
			}
		case fenceStart.MatchString(line):
			fence, indent, paired = rest[:len(rest)-len(strings.TrimLeft(rest, rest[:1]))], margin, true
		case fenceLike.MatchString(line):
			sure = false
			lines[i] = escape(line)
		case rest == "":
			paired = true
		default:
			lines[i], paired = escapeLine(line, paired)
		}
	}
	return strings.Join(lines, "\n")
}

// escapeLine escapes what is outside code spans, and reports whether every run of backticks had a partner. If paired is
// false, a span may have started in an earlier line.
func escapeLine(line string, paired bool) (string, bool) {
	runs := codeSpan.FindAllStringIndex(line, -1)
	if !paired || len(runs) == 0 {
		return escape(line), paired
	}
	var b strings.Builder
	at := 0
	for len(runs) > 0 {
		open, end := runs[0], 1
		for end < len(runs) && runs[end][1]-runs[end][0] != open[1]-open[0] {
			end++
		}
		if end == len(runs) || open[0] > 0 && line[open[0]-1] == '\\' {
			return escape(line), false
		}
		b.WriteString(escape(line[at:open[0]]))
		at = runs[end][1]
		b.WriteString(line[open[0]:at])
		runs = runs[end+1:]
	}
	return b.String() + escape(line[at:]), true
}
