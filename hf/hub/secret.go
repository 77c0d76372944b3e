package hub

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Secret is a string that prints as [redacted] whatever verb or encoder prints it. Convert it to string where its
// value is needed.
type Secret string

// String is "[redacted]", or "" where there is nothing to hide.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// Format implements fmt.Formatter, so that %q, %x and %#v hide the value too.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// scrub takes the token out of text that a server may have written.
func (h *Hub) scrub(text string) string {
	token := []byte(h.Token)
	if len(token) == 0 {
		return text
	}
	return strings.NewReplacer(
		string(token), "[redacted]",
		hex.EncodeToString(token), "[redacted]",
		// Without its last group, which padding or following bytes change.
		base64.RawStdEncoding.EncodeToString(token[:len(token)/3*3]), "[redacted]",
		base64.RawURLEncoding.EncodeToString(token[:len(token)/3*3]), "[redacted]",
	).Replace(text)
}

// scrubError is the last thing done to an error before it leaves the package.
func (h *Hub) scrubError(err *error) {
	if *err == nil {
		return
	}
	// The clean error stands alone: unwrapping must not give back the text that was hidden.
	if text := (*err).Error(); h.scrub(text) != text {
		*err = errors.New(h.scrub(text))
	}
}
