// Command conversations joins rows of datasets into conversations, so that a model also learns to answer later
// questions. Each has one to eight rows of the same file, in an order drawn by the seed. Every row is used once, and
// after it, if there is one, a question that refers to it. Both have the answers of the file if it has them.
//
//	go run ./internal/makedata/conversations --seed 1 --follow-ups later.jsonl --out talks.jsonl plain.json pirate.json
//
// With --mix the rows are those of --source, and the files only lend their sentences: a few, of any file and any row,
// stand around each answer. So a model learns that the answer does not depend on them. They are marked as not to be
// learned, since nothing tells which come, unless --learn is given. With --whole as well it is all that one row says
// around its answer: a row with code lends to answers with code, and one in words to answers in words. So nothing that
// announces a program stands before an answer in words.
//
// Rows of --source that a file lacks are used as they are: answers in words if its style writes only around code, and
// code that is too short for gen.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/internal/disk"
	"restyle/teacher"
)

func main() {
	if dataset.IsChild() {
		os.Exit(dataset.ChildMain())
	}
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
	most := flags.Int("most", 8, "greatest number of rows in a conversation, without follow-ups")
	follow := flags.String("follow-ups", "", "file of questions that refer to the answer before, as makedata writes it")
	source := flags.String("source", "", "dataset of which the files have most rows: the others are used as they are")
	mix := flags.Bool("mix", false, "give the rows of --source instead, with sentences of the files around their answers")
	learn := flags.Bool("learn", false, "with --mix: the sentences are to be learned as well")
	whole := flags.Bool("whole", false, "with --mix: all that one row says, around an answer of the same kind")
	followed := flags.Bool("followed", false, "leave out rows without a follow-up")
	out := flags.String("out", "", "file to write: chat messages, a JSON object per line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *most < 1 || flags.NArg() == 0 {
		return errors.New("name the datasets, a file with --out, and with --most at least 1; see -h")
	}
	if *mix && *source == "" || !*mix && (*whole || *learn) {
		return errors.New("--whole and --learn need --mix, and --mix needs rows: name them with --source; see -h")
	}
	var all []row
	var err error
	if *source != "" {
		if all, err = read(ctx, *source); err != nil {
			return err
		}
	}
	next, err := readFollowUps(*follow)
	if err != nil {
		return err
	}
	sets, err := readAll(ctx, flags.Args())
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	if *mix {
		lend := lendSentences(sets, random)
		if *whole {
			lend = lendWhole(sets, random)
		}
		sets = [][]row{mixed(all, next, lend, *learn)}
		all = nil
	}
	var file bytes.Buffer
	for _, rows := range sets {
		turns := link(rows, all, next)
		if *followed {
			turns = slices.DeleteFunc(turns, func(t []message) bool { return len(t) == 2 })
		}
		random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, c := range join(turns, *most, random) {
			if err := json.NewEncoder(&file).Encode(c); err != nil {
				return err
			}
		}
	}
	return disk.Write(*out, file.Bytes(), 0o666)
}

// A conversation is what a line of the file holds.
type conversation struct {
	Messages []message `json:"messages"`
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a text, or a list of parts
}

// A part of a content, as train reads it.
type part struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Train bool   `json:"train"`
}

// A row is a question, its answer, and the answer that gen rewrote or, if it did not, the same.
type row struct {
	question, answer, original string
	before, after              string // sentences around the answer that are not to be learned
}

func (r row) key() [2]string { return [2]string{r.question, r.original} }

func (r row) messages() []message {
	answer := message{"assistant", r.answer}
	if r.before+r.after != "" {
		answer.Content = r.parts()
	}
	return []message{{"user", r.question}, answer}
}

// parts are the answer and what is around it. train puts a line break between two parts; another is the answer's.
func (r row) parts() (parts []part) {
	text := r.answer
	if r.before != "" {
		parts = append(parts, part{"text", r.before, false})
		text = "\n" + text
	}
	if r.after != "" {
		text += "\n"
	}
	parts = append(parts, part{"text", text, true})
	if r.after != "" {
		parts = append(parts, part{"text", r.after, false})
	}
	return parts
}

// link returns the messages of each row, and after them those of its follow-up, if it has one. Rows of whole are added
// if they are missing. next are the follow-ups, by the key of the row before.
func link(rows, whole []row, next map[[2]string]row) (turns [][]message) {
	own := map[[2]string]row{}
	for _, r := range rows {
		own[r.key()] = r
	}
	for _, r := range whole {
		if _, ok := own[r.key()]; !ok {
			rows = append(rows, r)
		}
	}
	later := map[[2]string]bool{}
	for _, f := range next {
		later[f.key()] = true
	}
	for _, r := range rows {
		if later[r.key()] {
			continue
		}
		messages := r.messages()
		if f, ok := next[r.key()]; ok {
			if rewritten, ok := own[f.key()]; ok {
				f = rewritten
			}
			messages = append(messages, f.messages()...)
		}
		turns = append(turns, messages)
	}
	return turns
}

// join makes conversations of one to most turns each, all lengths equally often, of turns in their order.
func join(turns [][]message, most int, random *rand.Rand) (all []conversation) {
	for len(turns) > 0 {
		n := min(1+random.IntN(most), len(turns))
		all, turns = append(all, conversation{slices.Concat(turns[:n]...)}), turns[n:]
	}
	return all
}

// A lender returns what stands around an answer with code or in words.
type lender func(code bool) (before, after string)

// mixed returns the rows and the follow-ups with what is lent around their answers, to be learned or not.
func mixed(rows []row, next map[[2]string]row, lend lender, learn bool) (all []row) {
	for _, r := range rows {
		if f, ok := next[r.key()]; ok {
			all = append(all, f)
		}
		all = append(all, r)
	}
	for i, r := range all {
		answer, code := r.original, teacher.HasCode(r.original)
		if code {
			answer = "```python\n" + answer + "\n```"
		}
		before, after := lend(code)
		if learn {
			all[i].answer = strings.TrimSpace(before + "\n\n" + answer + "\n\n" + after)
		} else {
			all[i].before, all[i].answer, all[i].after = before, answer, after
		}
	}
	return all
}

var (
	fence    = regexp.MustCompile("(?s)```.*?```")
	quoted   = regexp.MustCompile("`[^`]*`")
	ended    = regexp.MustCompile(`(?s).+?(?:[.!?]\s+|$)`)
	sentence = regexp.MustCompile(`[A-Z][^.!?\n]{15,140}[.!?]`)
)

// lendSentences lends up to five sentences of any rows, and up to four.
func lendSentences(sets [][]row, random *rand.Rand) lender {
	lines := sentences(sets)
	some := func(most int) string {
		var text strings.Builder
		for range random.IntN(most + 1) {
			text.WriteString(lines[random.IntN(len(lines))])
			text.WriteString([]string{" ", " ", "\n\n"}[random.IntN(3)])
		}
		return strings.TrimSpace(text.String())
	}
	return func(bool) (before, after string) { return some(5), some(4) }
}

// lendWhole lends all that stands around the answer of one row, of each file equally often, but no sentence with a name
// of that answer. Rows in words that do not have the original answer lend nothing.
func lendWhole(sets [][]row, random *rand.Rand) lender {
	around := map[bool][][][2]string{} // of each file
	for _, rows := range sets {
		of := map[bool][][2]string{}
		for _, r := range rows {
			answer := cmp.Or(fence.FindString(r.answer), r.original)
			before, after, found := strings.Cut(r.answer, answer)
			before, after = withoutNames(before), withoutNames(after)
			if code := teacher.HasCode(answer); found && before+after != "" {
				of[code] = append(of[code], [2]string{before, after})
			}
		}
		for code, pairs := range of {
			around[code] = append(around[code], pairs)
		}
	}
	return func(code bool) (before, after string) {
		if len(around[code]) == 0 {
			return "", ""
		}
		file := around[code][random.IntN(len(around[code]))]
		one := file[random.IntN(len(file))]
		return one[0], one[1]
	}
}

// withoutNames returns the sentences of a text that have no code in them.
func withoutNames(text string) string {
	var kept []string
	for paragraph := range strings.SplitSeq(quoted.ReplaceAllString(text, "`"), "\n\n") {
		paragraph = ended.ReplaceAllStringFunc(paragraph, func(s string) string {
			if strings.Contains(s, "`") {
				return ""
			}
			return s
		})
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
			kept = append(kept, paragraph)
		}
	}
	return strings.Join(kept, "\n\n")
}

// sentences returns the different sentences around the answers, but none with code in it.
func sentences(sets [][]row) (all []string) {
	seen := map[string]bool{}
	for _, r := range slices.Concat(sets...) {
		for _, s := range sentence.FindAllString(fence.ReplaceAllString(r.answer, ""), -1) {
			if !seen[s] && !strings.Contains(s, "`") {
				seen[s] = true
				all = append(all, s)
			}
		}
	}
	return all
}

// readAll returns the rows of each dataset.
func readAll(ctx context.Context, names []string) (sets [][]row, err error) {
	for _, name := range names {
		rows, err := read(ctx, name)
		if err != nil {
			return nil, err
		}
		sets = append(sets, rows)
	}
	return sets, nil
}

// read returns the rows of a dataset: of one that gen wrote, or of any questions and answers.
func read(ctx context.Context, name string) (rows []row, err error) {
	if rewritten, err := dataset.ReadRewritten(ctx, name); err == nil {
		for _, r := range rewritten {
			question := dataset.Question(r.Instruction, r.Input)
			rows = append(rows, row{question: question, answer: r.OutputPassiveAggressive, original: r.OutputOriginal})
		}
		return rows, nil
	}
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
		answer := c.Messages[1].Content
		rows = append(rows, row{question: c.Messages[0].Content, answer: answer, original: answer})
	}
}

// readFollowUps returns the follow-ups of a file, by the key of the row before. No name means none.
func readFollowUps(name string) (map[[2]string]row, error) {
	next := map[[2]string]row{}
	if name == "" {
		return next, nil
	}
	file, err := disk.OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := json.NewDecoder(file); ; {
		var f struct {
			Instruction, Output string
			BeforeQuestion      string `json:"before_question"`
			BeforeAnswer        string `json:"before_answer"`
		}
		switch err := decoder.Decode(&f); {
		case err == io.EOF:
			return next, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		next[[2]string{f.BeforeQuestion, f.BeforeAnswer}] = row{question: f.Instruction, answer: f.Output, original: f.Output}
	}
}
