// Package llamacpp asks llama.cpp itself, on the CPU, so that tests and benchmarks can compare with it. It compiles a
// small C program at run time, which opens the libraries in the directory that RESTYLE_LLAMACPP names, and talks to it
// through pipes: what crashes llama.cpp is an error here.
package llamacpp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// driver is the C program.
//
//go:embed driver/main.c
var driver []byte

// ErrNone is the error of Open if RESTYLE_LLAMACPP is not set or there is no C compiler.
var ErrNone = errors.New("llama.cpp cannot be asked")

// Options say how a model runs.
type Options struct {
	// Threads is the number of threads. Default 0: one, because llama.cpp's threads wait for each other by spinning, which
	// takes many times as long if other programs are also running.
	Threads int
	// Context is the maximum number of tokens in the KV cache. Default 0: 1024.
	Context int
	// Sequences is the number of sequences that share the KV cache, for Many. Default 0: one.
	Sequences int
	// Exact keeps keys and values in float32, does not use llama.cpp's flash attention, and leaves weights as the file
	// has them. By default all are as llama.cpp's programs have them: float16, used if the CPU has it, and repacked for
	// the CPU, which for AMX gives wrong products with rows of 32 weights in blocks (version 0.5.0).
	Exact bool
}

// A Model is a GGUF file, open in a process of its own. After an error it only takes Close.
type Model struct {
	Version string // of llama.cpp
	CPU     string // the form of llama.cpp's kernels that it chose for this CPU, such as "haswell"
	Vocab   int    // number of tokens

	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	log     bytes.Buffer
	ended   error // why the process has ended
}

// Open opens a GGUF file. The context ends the process.
func Open(ctx context.Context, path string, o Options) (m *Model, err error) {
	libraries := os.Getenv("RESTYLE_LLAMACPP")
	if libraries == "" {
		return nil, fmt.Errorf("%w: RESTYLE_LLAMACPP must name the directory of its libraries", ErrNone)
	}
	temp, err := os.MkdirTemp("", "llamacpp")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	program := filepath.Join(temp, "driver")
	// Fast arithmetic lets the compiler search for the largest logit in vectors.
	cc := exec.CommandContext(ctx, "cc", "-O3", "-ffast-math", "-x", "c", "-o", program, "-", "-ldl")
	cc.Stdin = bytes.NewReader(driver)
	if out, err := cc.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	} else if err != nil {
		return nil, fmt.Errorf("cc does not compile the program that calls llama.cpp: %w: %.500s", err, out)
	}
	exact := 0
	if o.Exact {
		exact = 1
	}
	m = &Model{command: exec.CommandContext(ctx, program, libraries, path,
		fmt.Sprint(cmp.Or(o.Threads, 1)), fmt.Sprint(cmp.Or(o.Context, 1024)), fmt.Sprint(exact),
		fmt.Sprint(cmp.Or(o.Sequences, 1)))}
	m.command.Env = append(os.Environ(), "GGML_NO_BACKTRACE=1")
	m.command.Stderr = &m.log
	if m.in, err = m.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = bufio.NewReader(out)
	if err := m.command.Start(); err != nil {
		return nil, err
	}
	about, err := m.answer()
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Sscan(string(about), &m.Version, &m.CPU, &m.Vocab); err != nil {
		return nil, errors.Join(fmt.Errorf("llama.cpp says of itself %q: %w", about, err), m.Close())
	}
	return m, nil
}

// Close ends the process.
func (m *Model) Close() error {
	if m.ended != nil {
		return nil
	}
	m.ended = errors.New("it is closed")
	_ = m.in.Close() // it may have ended
	return m.command.Wait()
}

// ask sends a request and returns the answer.
func (m *Model) ask(word string, x float64, n int, data []byte) ([]byte, error) {
	if m.ended != nil {
		return nil, fmt.Errorf("llama.cpp: %w", m.ended)
	}
	request := append(fmt.Appendf(nil, "%s %g %d %d\n", word, x, n, len(data)), data...)
	_, _ = m.in.Write(request) // if the process has ended, what it logged says why
	return m.answer()
}

// answer reads an answer.
func (m *Model) answer() (data []byte, err error) {
	n := 0
	if _, err = fmt.Fscanf(m.out, "%d\n", &n); err == nil {
		data = make([]byte, n)
		_, err = io.ReadFull(m.out, data)
	}
	if err == nil {
		return data, nil
	}
	_ = m.in.Close()
	m.ended = cmp.Or(m.command.Wait(), err)
	lines := strings.Split(strings.TrimSpace(m.log.String()), "\n")
	said := strings.Join(lines[max(0, len(lines)-4):], "; ")
	return nil, fmt.Errorf("llama.cpp: %w: %.1000s", m.ended, said)
}

// ids asks for token ids.
func (m *Model) ids(word string, x float64, n int, data []byte) ([]int32, error) {
	data, err := m.ask(word, x, n, data)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(data)/4)
	_, err = binary.Decode(data, binary.NativeEndian, ids)
	return ids, err
}

func bytesOf(ids []int32) []byte {
	data, _ := binary.Append(nil, binary.NativeEndian, ids) // never fails for numbers
	return data
}

// Ends returns the tokens that end an answer, ascending.
func (m *Model) Ends() ([]int32, error) { return m.ids("ends", 0, 0, nil) }

// Template returns the text of the chat template, or "".
func (m *Model) Template() (string, error) {
	text, err := m.ask("template", 0, 0, nil)
	return string(text), err
}

// Tokenize returns the tokens of a text. With add, they include those that the vocabulary puts around every text; with
// parse, the names of special tokens in the text become these tokens.
func (m *Model) Tokenize(text string, add, parse bool) ([]int32, error) {
	flags := 0
	if add {
		flags |= 1
	}
	if parse {
		flags |= 2
	}
	return m.ids("tokenize", 0, flags, []byte(text))
}

// Logits replaces what is in the KV cache with tokens and returns the logits after each, [len(ids), Vocab].
func (m *Model) Logits(ids []int32) ([]float32, error) {
	data, err := m.ask("logits", 0, 0, bytesOf(ids))
	if err != nil {
		return nil, err
	}
	logits := make([]float32, len(data)/4)
	_, err = binary.Decode(data, binary.NativeEndian, logits)
	return logits, err
}

// Trim removes all but the first n tokens from the KV cache.
func (m *Model) Trim(n int) error {
	_, err := m.ask("trim", 0, n, nil)
	return err
}

// Read appends tokens to the KV cache, in one batch, and returns the most likely token after them.
func (m *Model) Read(ids []int32) (id int32, err error) {
	all, err := m.ids("read", 0, 0, bytesOf(ids))
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// Next appends a token to the KV cache, takes the most likely one after it, and so on: n times, one token at a time. It
// returns the n tokens that it took, the last of which is not in the cache.
func (m *Model) Next(id int32, n int) ([]int32, error) { return m.ids("next", float64(id), n, nil) }

// Many reads prompts of Options.Sequences sequences, all of the same length, and answers each with the n most likely
// tokens, a token of every answer at a time. It replaces what is in the KV cache.
func (m *Model) Many(prompts [][]int32, n int) (answers [][]int32, err error) {
	ids, err := m.ids("many", 0, n, bytesOf(slices.Concat(prompts...)))
	for answer := range slices.Chunk(ids, n) {
		answers = append(answers, answer)
	}
	return answers, err
}

// Greedy returns the n most likely tokens after a prompt, each after the ones before it. It replaces what is in the KV
// cache.
func (m *Model) Greedy(prompt []int32, n int) ([]int32, error) {
	if err := m.Trim(0); err != nil {
		return nil, err
	}
	first, err := m.Read(prompt)
	if err != nil {
		return nil, err
	}
	rest, err := m.Next(first, n-1)
	return append([]int32{first}, rest...), err
}

// Adapt puts the LoRA adapter of a GGUF file on the model, in place of an earlier one, with its own scale times scale.
// It empties the KV cache.
func (m *Model) Adapt(path string, scale float64) error {
	if err := m.Trim(0); err != nil {
		return err
	}
	_, err := m.ask("adapter", scale, 0, []byte(path))
	return err
}
