// Package quality evaluates models on questions with known answers: whether an answer's code parses, runs and passes
// the question's check, whether the answer ends by itself, its tone, and how probable the model finds the plain
// answers.
//
//	Run         asks all models, grades their answers and counts (run.go, ask.go, grade.go)
//	Code        finds the code of an answer (code.go)
//	Metrics     are the counts, and Thresholds the limits that they must meet (metrics.go, thresholds.go)
//	Report      has all results: as a table, as JSON, and with the answers side by side (report.go)
package quality
