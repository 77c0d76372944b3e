package quality

import (
	"slices"

	"restyle/infer"
)

// Metrics are what is counted over the answers of one model.
type Metrics struct {
	Answers int  `json:"answers"`
	Failed  int  `json:"failed"`           // questions that could not be asked, or without a loss
	Parse   int  `json:"parse"`            // answers with code that is Python
	Broken  int  `json:"broken,omitempty"` // answers to questions whose checks fail their own answers
	Right   *int `json:"right,omitempty"`  // of the others, that ran and passed the check; nil where nothing was run
	Stop    int  `json:"stop"`             // that the model ended by itself

	Tone     int     `json:"tone"`      // that score at least the style's MinScore
	ToneMean float64 `json:"tone_mean"` // score

	Openers        int    `json:"openers"`      // different ones
	Opener         string `json:"opener"`       // the most frequent: see voice.Opener
	OpenerCount    int    `json:"opener_count"` // answers that have it
	FirstFive      string `json:"first_five"`   // the most frequent: see voice.FirstFive
	FirstFiveCount int    `json:"first_five_count"`

	TokensMedian float64 `json:"tokens_median"`
	WordsMedian  float64 `json:"words_median"` // of prose

	Loss       *float64 `json:"loss,omitempty"` // of the plain answers, in nats per token; nil where there are none
	LossTokens int      `json:"loss_tokens"`
}

// metricsOf counts. tone is the score that an answer in the voice has at least.
func metricsOf(answers []*Answer, tone int) Metrics {
	f := Metrics{Answers: len(answers)}
	openers, firsts := map[string]int{}, map[string]int{}
	var tokens, words []int
	var loss float64
	run, right := 0, 0
	for _, a := range answers {
		f.Failed += count(a.Error != "")
		f.Parse += count(a.Parses)
		f.Broken += count(a.Broken != "")
		f.Stop += count(a.Reason == infer.Stopped)
		f.Tone += count(a.Tone >= tone)
		f.ToneMean += float64(a.Tone) / float64(len(answers))
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
		f.LossTokens += a.LossTokens
	}
	if run > 0 {
		f.Right = &right
	}
	f.Openers = len(openers)
	f.Opener, f.OpenerCount = mostFrequent(openers)
	f.FirstFive, f.FirstFiveCount = mostFrequent(firsts)
	f.TokensMedian, f.WordsMedian = median(tokens), median(words)
	if f.LossTokens > 0 {
		f.Loss = new(loss / float64(f.LossTokens))
	}
	return f
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// mostFrequent is the text that is counted highest, the first of the alphabet among equals.
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
