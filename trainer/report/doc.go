// Package report is what a training run leaves for people and for programs: metrics.jsonl, TensorBoard's event files, the
// loss curve as a picture, and rows of benchmark_log.csv. Nothing here reaches back into training, and an error of the
// disk is returned, never swallowed.
package report
