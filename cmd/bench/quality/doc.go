// Package quality asks models questions to which the right answers are known, and measures what they say: whether the code
// in it parses, runs and passes the question's check, whether an answer ends by itself, its tone, and how probable the
// model still finds the plain answers.
//
//	Run       asks all models, has the answers judged and counts (run.go, ask.go, judge.go)
//	Code      finds the code of an answer (code.go)
//	Figures   are what is counted, Bars what they have to reach (figures.go, bars.go)
//	Report    is all of it, as a table, as JSON, and every answer beside the others' (report.go)
package quality
