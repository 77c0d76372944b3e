// Package report writes what a training run leaves for people and programs: metrics.jsonl, TensorBoard's event files,
// the loss curve as a picture, and rows of benchmark_log.csv. Nothing here affects training, and every error of the
// disk is returned.
package report
