package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// JSONLine returns v in a line of JSON. Characters that [Clean] would replace are escaped, so that the line can be
// shown as it is and still holds the text as it was.
func JSONLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	line := b.String()
	if !strings.ContainsFunc(line, unsafe) {
		return b.Bytes(), nil
	}
	var escaped bytes.Buffer
	for _, r := range line {
		if unsafe(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes(), nil
}

// PrintJSON writes v in a line of JSON, such as the last line of a finished run.
func PrintJSON(w io.Writer, v any) error {
	line, err := JSONLine(v)
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}
