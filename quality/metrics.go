package quality

import (
	"cmp"
	"slices"

	"restyle/infer"
)

// Metrics count the answers of one model to a group of questions.
type Metrics struct {
	Answers int `json:"answers"`
	Failed  int `json:"failed"`           // the question could not be asked, or there is no loss
	Parse   int `json:"parse"`            // the code is Python
	Broken  int `json:"broken,omitempty"` // the check fails the question's own answer
	// the code ran and passed the check, which is not broken; nil if nothing was run
	Right *int `json:"right,omitempty"`
	Stop  int  `json:"stop"` // the model ended the answer itself

	// answers that say that the model cannot help, and should not; nil if nothing was run or that is not known
	Refused *int `json:"refused,omitempty"`

	Tone     int     `json:"tone"`      // the score is at least the style's MinScore
	ToneMean float64 `json:"tone_mean"` // mean score

	Openers        int    `json:"openers"`      // different openers
	Opener         string `json:"opener"`       // the most frequent opener: see voice.Opener
	OpenerCount    int    `json:"opener_count"` // answers with that opener
	FirstFive      string `json:"first_five"`   // the most frequent first five words: see voice.FirstFive
	FirstFiveCount int    `json:"first_five_count"`

	TokensMedian float64 `json:"tokens_median"`
	WordsMedian  float64 `json:"words_median"` // of prose

	Loss       *float64 `json:"loss,omitempty"` // of the reference answers, in nats per token; nil if there are none
	LossTokens int      `json:"loss_tokens"`
}

// metricsOf counts answers. An answer has the voice if its score is at least tone.
func metricsOf(answers []*Answer, tone int) Metrics {
	m := Metrics{Answers: len(answers)}
	openers, firsts := map[string]int{}, map[string]int{}
	var tokens, words []int
	var loss float64
	run, right := 0, 0
	for _, a := range answers {
		m.Failed += count(a.Error != "")
		m.Parse += count(a.Parses)
		m.Broken += count(a.Broken != "")
		m.Stop += count(a.Reason == infer.Stopped)
		if a.Refuses != nil {
			m.Refused = new(count(*a.Refuses) + *cmp.Or(m.Refused, new(0)))
		}
		m.Tone += count(a.Tone >= tone)
		m.ToneMean += float64(a.Tone) / float64(len(answers))
		if a.Right != nil {
			run++
			right += count(*a.Right)
		}
		if a.Opener != "" {
			openers[a.Opener]++
			firsts[a.FirstFive]++
		}
		tokens, words = append(tokens, a.Tokens), append(words, a.Words)
		loss += a.Loss
		m.LossTokens += a.LossTokens
	}
	if run > 0 {
		m.Right = &right
	}
	m.Openers = len(openers)
	m.Opener, m.OpenerCount = mostFrequent(openers)
	m.FirstFive, m.FirstFiveCount = mostFrequent(firsts)
	m.TokensMedian, m.WordsMedian = median(tokens), median(words)
	if m.LossTokens > 0 {
		m.Loss = new(loss / float64(m.LossTokens))
	}
	return m
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// mostFrequent returns the text with the highest count. Among equals, it returns the alphabetically first one.
func mostFrequent(counts map[string]int) (text string, n int) {
	for t, c := range counts {
		if c > n || c == n && t < text {
			text, n = t, c
		}
	}
	return text, n
}

func median(values []int) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return float64(values[(n-1)/2]+values[n/2]) / 2
}
