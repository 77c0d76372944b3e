package teacher

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A quantity is a number in prose, in digits or words, with its unit if it has one of units.
type quantity struct {
	text     string    // as it is written
	values   []float64 // more than one if it can be read in several ways: 1.000 is a thousand in some countries
	unit     string    // by its name in units, "" if there is none
	negative bool
	digits   bool // it is written in digits
	fact     bool // a text that gives the same information also has it
}

// A unit has a name and, if it can be expressed in other units, its size in a base unit, such as meters.
type unit struct {
	name string
	size float64
}

// units has the units that quantities know. In each line the first word is the name, the second is its size in
// seconds or another base unit, or -, and the rest are other spellings.
var units = func() map[string]unit {
	all := map[string]unit{}
	for line := range strings.Lines(`
second 1 s sec secs seconds
millisecond 0.001 ms msec milliseconds
minute 60 min mins minutes
hour 3600 h hr hrs hours
day 86400 days
week 604800 weeks
fortnight 1209600 fortnights
month 2629800 months
year 31557600 yr yrs years
decade 315576000 decades
century 3155760000 centuries
millimeter 0.001 mm millimeters millimetre millimetres
centimeter 0.01 cm centimeters centimetre centimetres
meter 1 m meters metre metres
kilometer 1000 km kms kilometers kilometre kilometres
inch - inches
foot - ft feet
yard - yards
mile - mi miles
gram 1 g grams gramme grammes
milligram 0.001 mg milligrams
kilogram 1000 kg kgs kilo kilos kilograms
pound - lb lbs pounds £ gbp quid
ounce - oz ounces
ton - tons tonne tonnes
liter 1 l liters litre litres
milliliter 0.001 ml milliliters millilitre millilitres
cup - cups
tablespoon - tbsp tablespoons
teaspoon - tsp teaspoons
gallon - gallons
pint - pints
bit - bits
byte 1 bytes
kilobyte 1e3 kb kilobytes
megabyte 1e6 mb megabytes meg megs
gigabyte 1e9 gb gigabytes gig gigs
terabyte 1e12 tb terabytes
degree - ° degrees
celsius - °c centigrade
fahrenheit - °f
percent - % percentage
dollar - $ usd dollars bucks
euro - € eur euros
yen - ¥ jpy
cent - cents
watt 1 w watts
kilowatt 1000 kw kilowatts
volt - v volts
mph - mph
`) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		size, _ := strconv.ParseFloat(words[1], 64)
		for _, w := range append(words[2:], words[0]) {
			all[w] = unit{words[0], size}
		}
	}
	return all
}()

// numberWords has the numbers that English words mean. A word in looseWords also means a number, but may mean something
// else, so a text need not keep it.
var (
	numberWords = func() map[string]float64 {
		words := map[string]float64{"zero": 0, "twice": 2, "thrice": 3, "half": 0.5, "dozen": 12, "dozens": 12}
		for i, w := range strings.Fields("two three four five six seven eight nine ten eleven twelve thirteen fourteen " +
			"fifteen sixteen seventeen eighteen nineteen") {
			words[w] = float64(i + 2)
		}
		for i, w := range strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety") {
			words[w] = float64(10 * (i + 2))
		}
		return words
	}()
	looseWords = map[string]float64{"one": 1, "once": 1, "single": 1, "couple": 2, "pair": 2, "both": 2, "double": 2,
		"triple": 3, "duo": 2, "trio": 3,
		"quarter": 0.25, "quarters": 0.25, "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5,
		"sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "noon": 12, "midnight": 0, "none": 0,
		"either": 2, "nil": 0, "thirds": 1.0 / 3, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14,
		"fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20}
	magnitudes = map[string]float64{"hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
		"k": 1e3, "bn": 1e9, "mn": 1e6, "hundreds": 100, "thousands": 1e3, "millions": 1e6, "billions": 1e9}
)

// proseToken matches a number with what is attached to it, a word, or a sign that is a unit.
var proseToken = regexp.MustCompile(`\d[\d.,]*\d[\p{L}%°]*|\d[\p{L}%°]*|\p{L}[\p{L}\p{N}]*|°\s?[CF]?|[$€£¥%½¼¾]`)

// periods has the units with which "one" is a number worth keeping: a second may be any moment.
var periods = []string{"hour", "day", "week", "month", "year"}

var fractionSigns = map[string]float64{"½": 0.5, "¼": 0.25, "¾": 0.75}

// A quantityReader reads the quantities of a text from its tokens.
type quantityReader struct {
	text   string
	tokens [][]int  // offsets
	lower  []string // the tokens in lower case
	start  int      // the first token of the quantity
	at     int
}

// quantities returns the numbers of a text. Numbers that are part of a name, such as v2 or 3.11.2, do not count.
func quantities(text string) (found []quantity) {
	r := quantityReader{text: text, tokens: proseToken.FindAllStringIndex(text, -1)}
	for _, t := range r.tokens {
		r.lower = append(r.lower, strings.ToLower(strings.ReplaceAll(text[t[0]:t[1]], " ", "")))
	}
	for r.at < len(r.tokens) {
		r.start = r.at
		q, ok := r.quantity()
		if !ok {
			r.at = r.start + 1
			continue
		}
		q.text = strings.TrimSpace(text[r.tokens[r.start][0]:r.tokens[r.at-1][1]])
		found = append(found, q)
	}
	return found
}

// word returns the token n after the reader's place. It returns "" if there is more than white space or a hyphen
// between it and the token before, which is of the same quantity.
func (r *quantityReader) word(n int) string {
	i := r.at + n
	if i >= len(r.tokens) {
		return ""
	}
	if i > r.start {
		gap := r.text[r.tokens[i-1][1]:r.tokens[i][0]]
		if strings.TrimSpace(gap) != "" && gap != "-" && gap != "\u2011" {
			return ""
		}
	}
	return r.lower[i]
}

// quantity reads a quantity that starts at the reader's place, and moves the reader past it.
func (r *quantityReader) quantity() (q quantity, ok bool) {
	start := r.tokens[r.at][0]
	before := strings.TrimRight(strings.ToLower(r.text[max(0, start-12):start]), " ")
	sign := strings.HasSuffix(r.text[:start], "-") || strings.HasSuffix(r.text[:start], "−")
	spaced := start < 2 || !isWord(r.text[:start][max(0, start-2)]) && r.text[start-2] != ')'
	q.negative = sign && spaced || strings.HasSuffix(before, "minus") || strings.HasSuffix(before, "negative")
	if u, found := units[r.word(0)]; found && strings.Contains("$€£¥", r.word(0)) {
		q.unit = u.name
		r.at++
	}
	switch w := r.word(0); {
	case w == "":
		return q, false
	case unicode.IsDigit(rune(w[0])):
		if !r.digits(&q, w) {
			return q, false
		}
	case fractionSigns[w] > 0:
		q.values, q.digits, q.fact = []float64{fractionSigns[w]}, true, true
		r.at++
	case !r.words(&q):
		return q, false
	}
	r.finish(&q)
	return q, true
}

// digits reads a number in digits and what is attached to it.
func (r *quantityReader) digits(q *quantity, w string) bool {
	end := strings.IndexFunc(w, func(c rune) bool { return unicode.IsLetter(c) || c == '%' || c == '°' })
	suffix := ""
	if end >= 0 {
		w, suffix = w[:end], w[end:]
	}
	q.values, q.digits, q.fact = readings(strings.TrimRight(w, ".,")), true, true
	if q.values == nil {
		return false
	}
	switch u, isUnit := units[suffix]; {
	case suffix == "" || suffix == "s" || suffix == "x" || slices.Contains([]string{"st", "nd", "rd", "th"}, suffix):
	case suffix == "m" && strings.HasSuffix(r.text[:r.tokens[r.at][1]], "M"):
		q.scale(1e6)
	case suffix == "b" && strings.HasSuffix(r.text[:r.tokens[r.at][1]], "B"):
		q.scale(1e9)
	case magnitudes[suffix] > 0:
		q.scale(magnitudes[suffix])
	case isUnit:
		q.unit = u.name
	default:
		return false
	}
	r.at++
	r.fraction(q)
	return true
}

// fraction reads the rest of 1/2.
func (r *quantityReader) fraction(q *quantity) {
	end := r.tokens[r.at-1][1]
	if r.at == len(r.tokens) || r.text[end:r.tokens[r.at][0]] != "/" || len(q.values) != 1 {
		return
	}
	if below := readings(r.lower[r.at]); len(below) == 1 && q.values[0] < below[0] {
		q.values[0] /= below[0]
		r.at++
	}
}

// words reads a number in words, such as "two hundred and five".
func (r *quantityReader) words(q *quantity) bool {
	total, read := 0.0, 0
	for {
		v, n, fact := r.small(read)
		if n == 0 {
			break
		}
		read += n
		larger := false
		for ; magnitudes[r.word(read)] > 1 && len(r.word(read)) > 2; read++ {
			v *= magnitudes[r.word(read)]
			larger, fact = true, true
		}
		total, q.fact = total+v, q.fact || fact
		if !larger {
			break
		}
		if r.word(read) == "and" && numberWords[r.word(read+1)] > 1 {
			read++
		}
	}
	q.values = []float64{total}
	r.at += read
	return read > 0
}

// small reads a number below a hundred, n tokens after the reader's place, and returns how many tokens it has. fact
// reports whether it can hardly be anything but a number.
func (r *quantityReader) small(n int) (v float64, read int, fact bool) {
	w, next := r.word(n), r.word(n+1)
	timed := units[next].name != "" && kindOf(units[next]) == "time" && len(next) > 2
	if (w == "per" || w == "every" || w == "each") && timed {
		return 1, 1, w == "per"
	}
	if w == "a" || w == "an" {
		if _, loose := looseWords[next]; loose || numberWords[next] > 2 || next == "half" {
			v, read, fact = r.small(n + 1)
			return v, read + 1, fact
		}
		if magnitudes[next] > 1 || units[next].name != "" && len(next) > 2 {
			return 1, 1, false
		}
		return 0, 0, false
	}
	v, fact = numberWords[w]
	if !fact {
		var loose bool
		if v, loose = looseWords[w]; !loose {
			return 0, 0, false
		}
	}
	switch {
	case v >= 20 && fact && numberWords[next] > 0.5 && numberWords[next] < 10 && next != "twice":
		return v + numberWords[next], 2, true
	case v >= 20 && fact && next == "one":
		return v + 1, 2, true
	case next == "dozen" || next == "thirds" || next == "quarters":
		return v * (numberWords[next] + looseWords[next]), 2, true
	case w == "half" && next == "a" && r.word(n+2) == "dozen":
		return 6, 3, true
	case w == "half" && (next == "a" || next == "an"):
		return v, 2, true
	}
	return v, 1, fact
}

// finish reads what may follow a number: how large it is, and its unit.
func (r *quantityReader) finish(q *quantity) {
	for magnitudes[r.word(0)] > 0 && len(r.word(0)) > 1 {
		q.scale(magnitudes[r.word(0)])
		r.at++
	}
	r.half(q)
	switch w := r.word(0); {
	case q.unit != "":
	case w == "per" && (r.word(1) == "cent" || r.word(1) == "hundred"):
		q.unit = "percent"
		r.at += 2
	case (w == "degrees" || w == "degree") && units[r.word(1)].name != "":
		q.unit = units[r.word(1)].name
		r.at += 2
	case units[w].name != "" && !strings.Contains("$€£¥", w) && (w != "second" || q.digits || q.fact):
		q.unit = units[w].name
		r.at++
		q.fact = q.fact || q.values[0] != 1 || slices.Contains(periods, q.unit)
	}
	r.half(q)
	if r.word(0) == "below" && r.word(1) == "zero" {
		q.negative = true
		r.at += 2
	}
}

// half reads the fraction of a number such as two and a half, 2½ and 2 1/2.
func (r *quantityReader) half(q *quantity) {
	if r.word(0) == "and" && r.word(1) == "a" && r.word(2) == "half" {
		q.values = []float64{q.values[0] + 0.5}
		r.at += 3
	} else if f := fractionSigns[r.word(0)]; f > 0 {
		q.values = []float64{q.values[0] + f}
		r.at++
	}
}

func (q *quantity) scale(by float64) {
	for i := range q.values {
		q.values[i] *= by
	}
}

var (
	thousands = regexp.MustCompile(`^\d{1,3}(?:,\d{3})+(?:\.\d+)?$`)
	european  = regexp.MustCompile(`^\d{1,3}(?:\.\d{3})+(?:,\d+)?$`)
)

// readings returns the values that a number in digits may have, or nil if it is not a number.
func readings(s string) (values []float64) {
	if thousands.MatchString(s) {
		s = strings.ReplaceAll(s, ",", "")
	} else if european.MatchString(s) {
		if v, err := strconv.ParseFloat(strings.ReplaceAll(strings.ReplaceAll(s, ".", ""), ",", "."), 64); err == nil {
			values = append(values, v)
		}
	}
	if v, err := strconv.ParseFloat(strings.Replace(s, ",", ".", 1), 64); err == nil {
		values = append(values, v)
	}
	return values
}

// same reports whether two quantities can mean the same.
func (q quantity) same(other quantity) bool {
	vague := q.unit != "" && q.unit != "percent" && other.unit == "" && !other.fact
	if vague || q.negative != other.negative {
		return false
	}
	for _, a := range q.values {
		for _, b := range other.values {
			u, v := units[q.unit], units[other.unit]
			switch {
			case near(a, b) && (q.unit == "" || other.unit == "" || q.unit == other.unit || related(u, v)):
				return true
			case u.size > 0 && v.size > 0 && kindOf(u) == kindOf(v) && near(a*u.size, b*v.size):
				return true
			case q.unit == "percent" && other.unit == "" && near(a, 100*b),
				other.unit == "percent" && q.unit == "" && near(100*a, b):
				return true
			}
		}
	}
	return false
}

// related reports whether one unit is a shorter form of the other: 20 degrees may be 20 °C.
func related(a, b unit) bool {
	short := func(x, y unit) bool {
		return x.name == "degree" && (y.name == "celsius" || y.name == "fahrenheit")
	}
	return short(a, b) || short(b, a)
}

// kindOf returns what a unit with a size measures.
func kindOf(u unit) string {
	for _, kind := range []string{"byte", "meter", "gram", "liter", "watt"} {
		if strings.HasSuffix(u.name, kind) {
			return kind
		}
	}
	return "time"
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

func (q quantity) String() string { return fmt.Sprintf("%q", q.text) }
