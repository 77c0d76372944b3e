// Command conversations joins rows of datasets into conversations, so that a model also learns to answer a second
// question. Each has one, two or three rows of the same file, in an order drawn by the seed. Every row is used once.
//
//	go run ./internal/makedata/conversations --seed 1 --out conversations.jsonl plain.json pirate.json
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"

	"restyle/chat"
	"restyle/dataset"
	"restyle/internal/disk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "conversations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("conversations", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seed := flags.Uint64("seed", 0, "seed of the order of rows and of the lengths of conversations")
	most := flags.Int("most", 3, "greatest number of questions in a conversation")
	out := flags.String("out", "", "file to write: chat messages, a JSON object per line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *most < 1 || flags.NArg() == 0 {
		return errors.New("name the datasets, a file with --out, and with --most at least 1; see -h")
	}
	var file bytes.Buffer
	random := rand.New(rand.NewPCG(*seed, 0))
	for _, name := range flags.Args() {
		rows, err := read(ctx, name)
		if err != nil {
			return err
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for _, c := range join(rows, *most, random) {
			if err := json.NewEncoder(&file).Encode(c); err != nil {
				return err
			}
		}
	}
	return disk.Write(*out, file.Bytes(), 0o666)
}

// A conversation is what a line of the file holds.
type conversation struct {
	Messages []chat.Message `json:"messages"`
}

// join makes conversations of one to most rows each, all lengths equally often, of rows in their order.
func join(rows [][]chat.Message, most int, random *rand.Rand) (all []conversation) {
	for len(rows) > 0 {
		n := min(1+random.IntN(most), len(rows))
		all, rows = append(all, conversation{slices.Concat(rows[:n]...)}), rows[n:]
	}
	return all
}

// read returns the rows of a dataset.
func read(ctx context.Context, name string) (rows [][]chat.Message, err error) {
	source, err := dataset.OpenConversations(ctx, name, dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	for {
		c, err := source.Next()
		switch {
		case err == io.EOF:
			return rows, nil
		case err != nil:
			return nil, err
		}
		rows = append(rows, c.Messages)
	}
}
