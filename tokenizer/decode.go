package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder is the file's decoder, which turns the texts of tokens into text.
type decoder struct {
	byteLevel    bool
	metaspace    string // Metaspace: this becomes a space, but in the first token nothing if there is a front
	front        bool
	replacements []replacement
	byteFallback bool // tokens <0xNN> are bytes
	strip        string
	stripCount   int // how many of strip are removed from the front of a text

	texts  []string // by id: the bytes that a token represents
	isByte []bool   // by id, with byteFallback
}

type replacement struct{ old, text string }

// readDecoder reads a decoder and checks that it is of the same kind as the pre-tokenizer.
func readDecoder(list []component, byteLevel bool) (decoder, error) {
	var d decoder
	if len(list) == 0 {
		return d, fmt.Errorf("decoder: missing: a tokenizer.json without one is not supported")
	}
	fused := false
	for i, c := range list {
		switch {
		case c.Type == "ByteLevel" && len(list) == 1:
			d.byteLevel = true
		case c.Type == "Metaspace" && len(list) == 1:
			scheme, err := c.scheme()
			if err != nil {
				return d, fmt.Errorf("decoder: %w", err)
			}
			d.metaspace, d.front = c.Replacement, scheme != "never"
		case c.Type == "Replace" && !d.byteFallback && !fused:
			old, err := c.replaced()
			if err != nil {
				return d, fmt.Errorf("decoder: %w", err)
			}
			d.replacements = append(d.replacements, replacement{old, c.Content})
		case c.Type == "ByteFallback" && !fused:
			d.byteFallback = true
		case c.Type == "Fuse":
			fused = true
		case c.Type == "Strip" && fused && i == len(list)-1 && c.Stop == 0 && c.Start >= 0 &&
			utf8.RuneCountInString(c.Content) == 1:
			d.strip, d.stripCount = c.Content, c.Start
		default:
			return d, fmt.Errorf("decoder %q is not supported at this place: ByteLevel, Metaspace, or Replace, ByteFallback, "+
				"Fuse and a Strip of the front in this order are", c.Type)
		}
	}
	if d.byteLevel != byteLevel {
		return d, fmt.Errorf("the decoder %q does not fit the pre_tokenizer: both must be ByteLevel, or neither",
			list[0].Type)
	}
	return d, nil
}

// prepare turns the texts of the tokens, which are in d.texts, into what each token represents by itself.
func (d *decoder) prepare(rest *budget) error {
	d.isByte = make([]bool, len(d.texts))
	for id, text := range d.texts {
		switch {
		case d.byteLevel:
			// Per token: all of it in the byte alphabet, or all of it as it is. So an added token such as "Ångström", which is
			// inside the alphabet by accident, comes out broken, as in Hugging Face's decoder.
			if bytes, ok := alphabet().appendBytes(nil, []byte(text)); ok {
				d.texts[id] = string(bytes)
			}
		case d.metaspace != "":
			d.texts[id] = strings.ReplaceAll(text, d.metaspace, " ")
		default:
			for _, r := range d.replacements {
				text = strings.ReplaceAll(text, r.old, r.text)
			}
			if b, ok := byteToken(text); ok && d.byteFallback {
				text, d.isByte[id] = string([]byte{b}), true
			}
			d.texts[id] = text
		}
		if err := rest.spend(len(d.texts[id])); err != nil {
			return err
		}
	}
	return nil
}

// byteToken returns the byte that a token <0xNN> represents.
func byteToken(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

// Decode turns tokens into text, without special tokens if skipSpecial is set. It cleans up no spaces. Ids without a
// token become nothing, as in Hugging Face; a model may have more ids than its tokenizer. Bytes that are not UTF-8
// become U+FFFD, so the text is valid.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.Stream(skipSpecial)
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = s.append(out, id)
	}
	return string(s.finish(out))
}

// A Stream decodes tokens as they arrive and never returns part of a character.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	started     bool
	strip       int
	held        []byte // the start of a character, or with byte fallback the bytes since the last other token
}

// Stream returns a Stream for a new text. The results of [Stream.Add] and [Stream.Flush], joined, are what
// [Tokenizer.Decode] returns for all the tokens.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, strip: t.decoder.stripCount}
}

// Add returns the text that is certain after this token; it may be empty. A byte-level tokenizer holds back at most the
// three bytes of an incomplete character. One with byte fallback holds back a run of byte tokens until it ends, because
// all of it becomes U+FFFD if any of it is not UTF-8.
func (s *Stream) Add(id int32) string { return string(s.append(nil, id)) }

// Flush returns the text that is held back, at the end of a text: an incomplete character becomes U+FFFD. It resets the
// stream.
func (s *Stream) Flush() string { return string(s.finish(nil)) }

// Held returns the number of bytes that are held back.
func (s *Stream) Held() int { return len(s.held) }

func (s *Stream) append(out []byte, id int32) []byte {
	d := &s.t.decoder
	if !s.t.has(id) || s.skipSpecial && s.t.special[id] {
		return out
	}
	piece := d.texts[id]
	switch {
	case d.byteLevel:
		s.held = append(s.held, piece...)
		return s.emitValid(out, false)
	case d.isByte[id]:
		s.held = append(s.held, piece...)
		return out
	case d.metaspace != "" && d.front && !s.started:
		piece = strings.ReplaceAll(s.t.texts[id], d.metaspace, "")
	}
	s.started = true
	return s.emit(s.emitBytes(out), piece)
}

func (s *Stream) finish(out []byte) []byte {
	if s.t.decoder.byteLevel {
		out = s.emitValid(out, true)
	} else {
		out = s.emitBytes(out)
	}
	s.started, s.strip = false, s.t.decoder.stripCount
	return out
}

// emitBytes appends a finished run of byte tokens: as text, or, if it is not UTF-8, as one U+FFFD for every byte.
func (s *Stream) emitBytes(out []byte) []byte {
	if len(s.held) == 0 {
		return out
	}
	text := string(s.held)
	if !utf8.ValidString(text) {
		text = strings.Repeat("\uFFFD", len(s.held))
	}
	s.held = s.held[:0]
	return s.emit(out, text)
}

// emit appends text, without what is to be stripped off the front.
func (s *Stream) emit(out []byte, text string) []byte {
	for s.strip > 0 && text != "" {
		rest, found := strings.CutPrefix(text, s.t.decoder.strip)
		if !found {
			s.strip = 0
			break
		}
		text = rest
		s.strip--
	}
	return append(out, text...)
}

// emitValid appends what is certain of the held bytes: whole characters, and a U+FFFD for every maximal part that
// cannot become one (Unicode 3.9, U+FFFD Substitution of Maximal Subparts). At the end, that is all of them.
func (s *Stream) emitValid(out []byte, final bool) []byte {
	held := s.held
	for len(held) > 0 {
		if r, size := utf8.DecodeRune(held); r != utf8.RuneError || size > 1 {
			out = append(out, held[:size]...)
			held = held[size:]
			continue
		}
		// Wait for all of an encoded surrogate, as Python's incremental decoder does, although it never is a character.
		surrogate := len(held) == 2 && held[0] == 0xED && held[1]&0xE0 == 0xA0
		if !final && (surrogate || !utf8.FullRune(held)) {
			break
		}
		part := 1
		for part < len(held) && !utf8.FullRune(held[:part+1]) {
			part++
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		held = held[part:]
	}
	s.held = append(s.held[:0], held...)
	return out
}
