package main

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/teacher"
)

// takeBatch reads the results of a batch into the journal.
func (g *gen) takeBatch(j *teacher.Journal) error {
	f, err := disk.OpenInput(g.ingest)
	if err != nil {
		return fmt.Errorf("--ingest-batch: %w", err)
	}
	defer f.Close()
	in, err := teacher.IngestBatch(f, j, g.key)
	if err != nil {
		return fmt.Errorf("--ingest-batch %s: %w", g.ingest, err)
	}
	g.say("%s: %s, %d known before, %s, %s, %s", g.ingest, cli.Count(in.Answers, "new answer"), in.Known,
		cli.Count(in.Duplicates, "duplicate"), cli.Count(in.Failed, "error"), cli.Count(in.Unreadable, "unreadable line"))
	if in.FirstError != "" {
		g.say("the first problem: %s", in.FirstError)
	}
	if len(in.Deviations) > 0 {
		g.say("note: its answers deviate from OpenAI's format: %s (accepted)", strings.Join(in.Deviations, ", "))
	}
	return nil
}

// waitForBatch ends a run whose missing answers have to come from a batch.
func (g *gen) waitForBatch(batch *batchFile, sum teacher.Summary) error {
	if batch == nil {
		g.say("%s without an answer: to write them to a file, "+
			"run the same command with --emit-batch FILE instead of --ingest-batch", cli.Count(sum.Pending, "request"))
		return errIncomplete
	}
	kept, err := batch.commit()
	if err != nil {
		return err
	}
	if kept != "" {
		g.say("renamed the old %s to %s", g.emit, kept)
	}
	g.say("%s: %s; have a batch server answer them, then run the same command with --ingest-batch RESULTS",
		g.emit, cli.Count(sum.Pending, "request"))
	return cli.PrintJSON(g.stdout, map[string]any{"batch": g.emit, "requests": sum.Pending, "rows_decided": sum.Accepted})
}

// batchFile is a file of requests that is complete or absent.
type batchFile struct {
	*disk.Pending
	path string
	buf  *bufio.Writer
}

func createBatch(path string) (*batchFile, error) {
	path, err := disk.Follow(path)
	if err == nil {
		err = disk.MakeDir(filepath.Dir(path), 0o755)
	}
	if err != nil {
		return nil, err
	}
	f, err := disk.Create(path, 0o600) // it holds prompts
	if err != nil {
		return nil, err
	}
	return &batchFile{f, path, bufio.NewWriter(f)}, nil
}

func (b *batchFile) add(key string, body []byte) error {
	return teacher.WriteBatchLine(b.buf, key, body)
}

// commit puts the file in place. It keeps an existing file that differs, which may hold answers that were paid for,
// under the name kept.
func (b *batchFile) commit() (kept string, err error) {
	if err := b.buf.Flush(); err != nil {
		return "", err
	}
	outcome, err := b.CommitBackup(b.path)
	return outcome.Kept, err
}
