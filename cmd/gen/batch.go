package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"restyle/teacher"
)

// takeBatch enters the results of a batch in the journal.
func (g *gen) takeBatch(j *teacher.Journal) error {
	f, err := os.Open(g.ingest)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := teacher.IngestBatch(f, j)
	if err != nil {
		return err
	}
	g.say("%s: %d new answers, %d known before, %d duplicates, %d errors, %d unreadable lines",
		g.ingest, in.Answers, in.Known, in.Duplicates, in.Failed, in.Unreadable)
	if in.FirstError != "" {
		g.say("the first problem: %s", in.FirstError)
	}
	return nil
}

// waitForBatch ends an invocation whose requests wait for somebody else's answers.
func (g *gen) waitForBatch(batch *batchFile, sum teacher.Summary) error {
	if batch == nil {
		g.say("%d requests have no answer yet: run the same command with --emit-batch FILE instead of --ingest-batch to write them", sum.Pending)
		return errIncomplete
	}
	if err := batch.commit(); err != nil {
		return err
	}
	g.say("%s: %d requests; have them answered, then run the same command with --ingest-batch RESULTS", g.emit, sum.Pending)
	return printJSON(g.stdout, map[string]any{"batch": g.emit, "requests": sum.Pending, "rows_decided": sum.Accepted})
}

// batchFile is a file of requests that appears whole or not at all.
type batchFile struct {
	path string
	file *os.File
	buf  *bufio.Writer
}

func createBatch(path string) (*batchFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(path + ".tmp") // a fixed name, so that kills do not pile them up
	if err != nil {
		return nil, err
	}
	return &batchFile{path: path, file: f, buf: bufio.NewWriter(f)}, nil
}

func (b *batchFile) add(key string, body []byte) error {
	return teacher.WriteBatchLine(b.buf, key, body)
}

func (b *batchFile) commit() error {
	err := errors.Join(b.buf.Flush(), b.file.Sync(), b.file.Chmod(0o644), b.file.Close())
	if err == nil {
		err = os.Rename(b.file.Name(), b.path)
	}
	return err
}

func (b *batchFile) discard() {
	b.file.Close()
	os.Remove(b.file.Name())
}
