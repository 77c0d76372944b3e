// Command makedata generates the starter dataset: starter.parquet, heldout.jsonl and README.md in the directory data.
// It runs every row with python3 against the check of its kind, and verifies that every held-out question's check
// rejects planted wrong answers. It stops at the first failure. The same seed gives the same bytes.
//
//	go run ./internal/makedata               write the three files
//	go run ./internal/makedata --kind sum    show and check rows of the kinds with "sum" in their names; write nothing
//	go run ./internal/makedata --topic dict  the same for topics, by the name of a topic or of its file
//	go run ./internal/makedata --round 1 --train rows.jsonl --follow-ups later.jsonl  for base.sh: write other training
//	                                         rows of the same kinds and topics, and questions that refer to them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"restyle/grade"
	"restyle/internal/sandbox"
)

// defaultSeed is the seed of the committed files.
const defaultSeed = 1

// python3 is the program that runs the answers.
const python3 = "python3"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("make", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seed := flags.Uint64("seed", defaultSeed, "what the rows are drawn from; the same seed gives the same files")
	out := flags.String("out", "data", "directory to write starter.parquet, heldout.jsonl and README.md into")
	kind := flags.String("kind", "", "show rows of the kinds with this text in their names, with their checks and "+
		"mutants, and write nothing; all shows every kind")
	topic := flags.String("topic", "", "show questions about the topics with this text in their names or their file's, "+
		"and check them; all shows every topic")
	later := flags.String("follow-ups", "", "write questions that refer to training rows and their answers into this "+
		"file, and nothing else")
	others := flags.String("train", "", "write the training rows into this file, JSON lines, and nothing else")
	round := flags.Int("round", 0, "with --train and --follow-ups: the round; each draws other rows; 0: those of "+
		"starter.parquet")
	rows := flags.Int("rows", 3, "with --kind and --topic: rows to show of each")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "make: unexpected argument %q; see -h\n", flags.Arg(0))
		return 2
	}
	if *round < 0 || *round > 0 && *later+*others == "" {
		fmt.Fprintln(stderr, "make: --round is 0 or more, and needs --train or --follow-ups; see -h")
		return 2
	}
	var err error
	switch {
	case *kind != "":
		err = show(ctx, *seed, *kind, *rows, stdout)
	case *later+*others != "":
		err = writeRound(*seed, *round, *others, *later)
	case *topic != "":
		err = showTopics(ctx, *seed, *topic, *rows, stdout)
	default:
		err = generate(ctx, *seed, *out, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "make:", err)
		return 1
	}
	return 0
}

// generate builds and verifies the dataset, and writes its files.
func generate(ctx context.Context, seed uint64, out string, stdout io.Writer) error {
	s, err := makeSet(seed, 0)
	if err != nil {
		return err
	}
	train, held, asked := s.train, s.held, s.asked
	if err := verify(ctx, held, asked, toRun(train)); err != nil {
		return err
	}
	tally, survivors, err := plant(ctx, seed, held, allTried)
	if err != nil {
		return err
	}
	parquet, err := encodeParquet(train)
	if err != nil {
		return err
	}
	jsonl, err := encodeQuestions(slices.Concat(held, asked))
	if err != nil {
		return err
	}
	readme, err := describe(s, seed, tally)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		bytes []byte
	}{{"starter.parquet", parquet}, {"heldout.jsonl", jsonl}, {"README.md", readme}} {
		if err := os.WriteFile(filepath.Join(out, file.name), file.bytes, 0o644); err != nil {
			return fmt.Errorf("%w; run it from the repository's root, or name a folder with --out", err)
		}
		fmt.Fprintf(stdout, "%s: %d bytes\n", filepath.Join(out, file.name), len(file.bytes))
	}
	fmt.Fprintf(stdout, "%d training rows, %d held-out questions, %d of %d planted wrong answers found\n", len(train),
		len(held)+len(asked), tally.killed(), tally.tried())
	for _, m := range survivors {
		fmt.Fprintf(stdout, "\nnot found: %s, %s changed\n%s\n", m.kind, m.sort, m.code)
	}
	return nil
}

// A set is what the starter dataset is made of.
type set struct {
	kinds  []Kind
	topics []Topic
	train  []Row // of kinds in whole sentences, and of kinds and topics as people type
	held   []Row // of kinds
	asked  []Row // held out as well: typed questions, those about something else, and follow-ups
}

// makeSet draws the rows of the starter dataset, or of another round. It runs no Python.
func makeSet(seed uint64, round int) (s set, err error) {
	if s.kinds, err = kinds(); err != nil {
		return s, err
	}
	if s.topics, err = readTopics(); err != nil {
		return s, err
	}
	if s.train, s.held, err = build(seed, round, s.kinds); err != nil {
		return s, err
	}
	typed, later, err := buildTyped(seed, round, s.kinds, s.topics, s.held)
	if err != nil {
		return s, err
	}
	s.train = append(s.train, typed...)
	spread(newDraw(seed, inRound("order/train", round)), s.train)
	s.asked, err = askedRows(s.topics, later)
	return s, err
}

// perTopic is how many different training answers of a topic are run: its code is the same in all.
const perTopic = 3

// toRun returns the training rows of which the answers are run: all of kinds, and some of each topic.
func toRun(train []Row) (rows []Row) {
	ran := map[[2]string]bool{}
	count := map[string]int{}
	for _, row := range train {
		pair := [2]string{row.Output, row.check}
		if row.check == "" || row.group != "" && (ran[pair] || count[row.kind.Name] == perTopic) {
			continue
		}
		ran[pair] = true
		count[row.kind.Name]++
		rows = append(rows, row)
	}
	return rows
}

// verify runs every row's answer against its check.
func verify(ctx context.Context, groups ...[]Row) error {
	rows := slices.Concat(groups...)
	trials := make([]grade.Trial, len(rows))
	for i, row := range rows {
		trials[i] = row.trial(row.Output)
	}
	verdicts, err := judge(ctx, trials)
	if err != nil {
		return err
	}
	var failed []string
	for i, v := range verdicts {
		if v.Right {
			continue
		}
		if failed = append(failed, rows[i].kind.Name); len(slices.Compact(slices.Clone(failed))) == 1 {
			err = fmt.Errorf("kind %s: %s\n--- question\n%s\n%s\n--- answer\n%s\n--- printed\n%s\n--- check\n%s",
				rows[i].kind.Name, v.Error, rows[i].Instruction, rows[i].Input, rows[i].Output, v.Printed, rows[i].check)
		}
	}
	if failed != nil {
		slices.Sort(failed)
		return fmt.Errorf("%d answers fail their checks, of the kinds %s; the first: %w", len(failed),
			strings.Join(slices.Compact(failed), ", "), err)
	}
	return nil
}

// judge runs answers. They come from this program, so a machine without a sandbox can make the dataset, too.
func judge(ctx context.Context, trials []grade.Trial) ([]grade.Verdict, error) {
	verdicts, err := grade.Run(ctx, python3, trials)
	if errors.Is(err, sandbox.ErrUnavailable) {
		return grade.RunUnprotected(ctx, python3, trials)
	}
	return verdicts, err
}
