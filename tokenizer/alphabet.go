package tokenizer

import (
	"sync"
	"unicode/utf8"
)

// The byte-level alphabet represents each byte by a visible character: the printable ones of Latin-1 by themselves, the
// others by U+0100 and up, in order (GPT-2's encoder.py, bytes_to_unicode).
type byteAlphabet struct {
	char   [256]rune
	byteOf [256 + 68]int16 // by character; -1 if it represents no byte
}

var alphabet = sync.OnceValue(func() *byteAlphabet {
	a := new(byteAlphabet)
	for i := range a.byteOf {
		a.byteOf[i] = -1
	}
	others := rune(256)
	for b := range a.char {
		char := rune(b)
		if !('!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b) {
			char = others
			others++
		}
		a.char[b], a.byteOf[char] = char, int16(b)
	}
	return a
})

// appendBytes appends the bytes that token represents. It returns false if a character of token is not in the alphabet.
func (a *byteAlphabet) appendBytes(dst []byte, token []byte) ([]byte, bool) {
	for i := 0; i < len(token); {
		char, size := rune(token[i]), 1
		if char >= utf8.RuneSelf {
			char, size = utf8.DecodeRune(token[i:])
		}
		if int(char) >= len(a.byteOf) || a.byteOf[char] < 0 {
			return dst, false
		}
		dst = append(dst, byte(a.byteOf[char]))
		i += size
	}
	return dst, true
}

// write returns bytes in the alphabet.
func (a *byteAlphabet) write(bytes string) string {
	out := make([]byte, 0, 2*len(bytes))
	for i := range len(bytes) {
		out = utf8.AppendRune(out, a.char[bytes[i]])
	}
	return string(out)
}
