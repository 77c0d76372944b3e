package teacher

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A moment is a date or a time of day in prose.
type moment struct {
	text  string
	keys  []string   // what it may mean: 3/4/2024 is a day in March or in April
	parts []quantity // its numbers, for texts in which they occur one by one
}

const (
	monthName = `(?i:(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|` +
		`oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?)`
	dayNumber  = `(\d{1,2})(?:st|nd|rd|th)?`
	yearNumber = `(?:,?\s+(?:of\s+)?(\d{4}))`
)

// momentPatterns are the forms of dates and times, the longest first.
var momentPatterns = []struct {
	pattern *regexp.Regexp
	keys    func(m []string) []string
}{
	{regexp.MustCompile(`\b(\d{4})-(\d{1,2})-(\d{1,2})\b`), func(m []string) []string { return date(m[1], m[2], m[3]) }},
	{regexp.MustCompile(`\b(\d{1,2})[/.](\d{1,2})[/.](\d{4})\b`), func(m []string) []string {
		return append(date(m[3], m[1], m[2]), date(m[3], m[2], m[1])...)
	}},
	{regexp.MustCompile(`\b` + dayNumber + `\.?\s+(?:of\s+)?` + monthName + yearNumber + `?`), func(m []string) []string {
		return date(m[3], m[2], m[1])
	}},
	{regexp.MustCompile(`\b` + monthName + `\s+(?:the\s+)?` + dayNumber + `\b` + yearNumber + `?`),
		func(m []string) []string { return date(m[3], m[1], m[2]) }},
	{regexp.MustCompile(`\b` + monthName + yearNumber), func(m []string) []string { return date(m[2], m[1], "") }},
	{regexp.MustCompile(`(?i)\b(\d{1,2}|` + strings.Join(hourWords, "|") + `)(?::(\d{2}))?(?:\s+o['’]clock)?\s*` +
		`(?:([ap])(?:\.\s?m\.|m\b)|in the (morning|afternoon|evening)|(at night))`), func(m []string) []string {
		half := m[3] + m[4] + m[5]
		if half = strings.ToLower(half); half == "morning" {
			half = "a"
		} else if len(half) > 1 {
			half = "p"
		}
		return clock(m[1], m[2], half)
	}},
	{regexp.MustCompile(`\b(\d{1,2}):(\d{2})(?::\d{2})?\b`), func(m []string) []string { return clock(m[1], m[2], "") }},
	{regexp.MustCompile(`(?i)\b(noon|midnight)\b`), func(m []string) []string {
		if strings.EqualFold(m[1], "noon") {
			return clock("12", "", "p")
		}
		return clock("12", "", "a")
	}},
}

var hourWords = strings.Fields("one two three four five six seven eight nine ten eleven twelve")

// moments returns the dates and times of a text, and the text with spaces in their places.
func moments(text string) (found []moment, rest string) {
	for _, form := range momentPatterns {
		text = blank(text, form.pattern, func(m []string) bool {
			keys := form.keys(m)
			if len(keys) == 0 {
				return false
			}
			parts := quantities(m[0])
			for i := range parts {
				parts[i].unit = ""
			}
			found = append(found, moment{strings.TrimSpace(m[0]), keys, parts})
			return true
		})
	}
	return found, text
}

// date returns the key of a date, or none if it is not a date. Year and day may be empty; the month is a number or a
// name.
func date(year, month, day string) []string {
	n, err := strconv.Atoi(month)
	if err != nil {
		n = 1 + slices.Index(strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec"), strings.ToLower(month[:3]))
	}
	d, _ := strconv.Atoi(day)
	if n < 1 || n > 12 || d > 31 {
		return nil
	}
	return []string{year + "-" + strconv.Itoa(n) + "-" + strconv.Itoa(d)}
}

// clock returns the keys of a time of day, in minutes: two if it may be in the morning or the afternoon. The hour may
// be a word.
func clock(hour, minute, half string) (keys []string) {
	h, err := strconv.Atoi(hour)
	if err != nil {
		h = 1 + slices.Index(hourWords, strings.ToLower(hour))
	}
	m, _ := strconv.Atoi(minute)
	if h > 24 || m > 59 || half != "" && h > 12 {
		return nil
	}
	if half != "p" {
		keys = append(keys, strconv.Itoa(h%24*60+m))
		if half == "a" && h == 12 {
			keys[0] = strconv.Itoa(m)
		}
	}
	if half == "p" || half == "" && h < 13 {
		keys = append(keys, strconv.Itoa((h%12+12)*60+m))
	}
	return keys
}

// same reports whether two moments can be the same one. A date without a year may be in any.
func (m moment) same(other moment) bool {
	return slices.ContainsFunc(m.keys, func(key string) bool {
		_, day, isDate := strings.Cut(key, "-")
		return slices.Contains(other.keys, key) || isDate && slices.Contains(other.keys, "-"+day) ||
			isDate && strings.HasPrefix(key, "-") && slices.ContainsFunc(other.keys, func(k string) bool {
				return strings.HasSuffix(k, key)
			})
	})
}

// within reports whether a moment can be the other one or the month that it is in.
func (m moment) within(other moment) bool {
	return m.same(other) || slices.ContainsFunc(m.keys, func(key string) bool {
		month, ok := strings.CutSuffix(key, "-0")
		return ok && slices.ContainsFunc(other.keys, func(k string) bool { return strings.HasPrefix(k, month+"-") })
	})
}

// blank replaces the matches of a pattern for which is returns true with spaces. is gets the submatches.
func blank(text string, pattern *regexp.Regexp, is func(m []string) bool) string {
	return pattern.ReplaceAllStringFunc(text, func(match string) string {
		if m := pattern.FindStringSubmatch(match); m != nil && is(m) {
			return strings.Repeat(" ", len(match))
		}
		return match
	})
}
