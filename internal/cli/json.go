package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// JSONLine returns v as one line of JSON. It escapes the characters that [Clean] would replace, so that the line is
// safe to print and still holds the original text.
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
		switch high, low := utf16.EncodeRune(r); {
		case !unsafe(r):
			escaped.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return escaped.Bytes(), nil
}

// PrintJSON writes v as one line of JSON, such as the result line of a command.
func PrintJSON(w io.Writer, v any) error {
	line, err := JSONLine(v)
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}
