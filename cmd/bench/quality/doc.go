// Package quality asks models questions whose right answers are known, and measures the answers: whether their code
// parses, runs and passes the question's check, whether an answer ends by itself, its tone, and how probable the plain
// answers are for the model.
//
//	Run         asks all models, has the answers graded and counts (run.go, ask.go, grade.go)
//	Code        finds the code of an answer (code.go)
//	Metrics     are what is counted, and Thresholds what they must meet (metrics.go, thresholds.go)
//	Report      is all of it, as a table, as JSON, and every answer beside the others' (report.go)
package quality
