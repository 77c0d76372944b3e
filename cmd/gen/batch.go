package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/teacher"
)

// takeBatch enters the results of a batch in the journal.
func (g *gen) takeBatch(j *teacher.Journal) error {
	// A named pipe that nobody writes to must not keep the command from hearing signals.
	f, err := os.OpenFile(g.ingest, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := teacher.IngestBatch(f, j, g.key)
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
	return cli.PrintJSON(g.stdout, map[string]any{"batch": g.emit, "requests": sum.Pending, "rows_decided": sum.Accepted})
}

// batchFile is a file of requests that appears whole or not at all.
type batchFile struct {
	*disk.Pending
	path string
	buf  *bufio.Writer
}

func createBatch(path string) (*batchFile, error) {
	path, err := disk.Follow(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		return nil, err
	}
	f, err := disk.Create(path, 0o600) // for its owner alone: it has the prompts
	if err != nil {
		return nil, err
	}
	return &batchFile{f, path, bufio.NewWriter(f)}, nil
}

func (b *batchFile) add(key string, body []byte) error {
	return teacher.WriteBatchLine(b.buf, key, body)
}

// commit puts the file in place. Another file of that name, which may hold answers that were paid for, is kept as .bak.
func (b *batchFile) commit() error {
	if err := b.buf.Flush(); err != nil {
		return err
	}
	switch same, err := disk.Same(b.path, b.File); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case same:
		return b.Discard()
	default:
		if err := b.Sync(); err != nil {
			return err
		}
		if _, err := disk.Keep(b.path); err != nil {
			return err
		}
	}
	return b.Commit()
}
