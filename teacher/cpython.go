package teacher

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// CPython is a Python interpreter that parses code without running it, as a second check of S1. The first check, in Go,
// refuses only what is certainly not Python, and so may accept other languages that look like it.
type CPython struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const parseLoop = `
import ast, json, sys, warnings
warnings.simplefilter("ignore")
for line in sys.stdin:
    try:
        ast.parse(json.loads(line))
        said = ""
    except Exception as e:
        said = str(e) or type(e).__name__
    print(json.dumps(said), flush=True)
`

// StartCPython starts the interpreter with an empty environment and without the user's site packages. The caller must
// call Close.
func StartCPython(program string) (*CPython, error) {
	c := &CPython{cmd: exec.Command(program, "-I", "-c", parseLoop)}
	c.cmd.Env = []string{}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("python: %w", err)
	}
	if wrong, err := c.Parse("pass"); err != nil || wrong != "" {
		c.Close()
		return nil, fmt.Errorf("%s does not parse Python 3: %s%v", program, wrong, err)
	}
	return c, nil
}

// Parse returns the interpreter's syntax error for code, or "" if the code parses. It returns an error if the
// interpreter has ended.
func (c *CPython) Parse(code string) (wrong string, err error) {
	line, err := json.Marshal(strings.ToValidUTF8(code, "\ufffd"))
	if err != nil {
		return "", err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return "", fmt.Errorf("python has ended: %w", err)
	}
	answer, err := c.out.ReadBytes('\n')
	if err != nil {
		return "", fmt.Errorf("python has ended: %w", err)
	}
	if err := json.Unmarshal(answer, &wrong); err != nil {
		return "", fmt.Errorf("python: %w", err)
	}
	return wrong, nil
}

// Close ends the interpreter.
func (c *CPython) Close() error {
	c.in.Close()
	return c.cmd.Wait()
}
