package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder is what the file's decoder does to the texts of tokens.
type decoder struct {
	byteLevel    bool
	metaspace    string // Metaspace: this stands for a space, and in the first token for nothing if there is a front
	front        bool
	replacements []replacement
	byteFallback bool // tokens <0xNN> are bytes
	strip        string
	stripCount   int // how many of strip are taken off the front of a text

	pieces []string // by id: the bytes that a token stands for
	isByte []bool   // by id, with byteFallback
}

type replacement struct{ old, text string }

// readDecoder reads a decoder and checks that it is of the same kind as the pre-tokenizer.
func readDecoder(list []component, byteLevel bool) (decoder, error) {
	var d decoder
	if len(list) == 0 {
		return d, fmt.Errorf("there is no decoder: a tokenizer.json without one is not supported")
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
		case c.Type == "Strip" && fused && i == len(list)-1 && c.Stop == 0 && c.Start >= 0 && utf8.RuneCountInString(c.Content) == 1:
			d.strip, d.stripCount = c.Content, c.Start
		default:
			return d, fmt.Errorf("decoder %q is not supported at this place: ByteLevel, Metaspace, or Replace, ByteFallback, Fuse and a Strip of the front in this order are", c.Type)
		}
	}
	if d.byteLevel != byteLevel {
		return d, fmt.Errorf("the decoder %q does not fit the pre_tokenizer: both have to be ByteLevel, or neither", list[0].Type)
	}
	return d, nil
}

// prepare turns the texts of the tokens, which are in pieces, into what each stands for by itself.
func (d *decoder) prepare() {
	d.isByte = make([]bool, len(d.pieces))
	for id, text := range d.pieces {
		switch {
		case d.byteLevel:
			// Token by token: all of it in the byte alphabet, or all of it as it is. So an added token such as "Ångström",
			// which happens to be inside the alphabet, is broken, in Hugging Face's decoder too.
			if bytes, ok := alphabet().appendBytes(nil, []byte(text)); ok {
				d.pieces[id] = string(bytes)
			}
		case d.metaspace != "":
			d.pieces[id] = strings.ReplaceAll(text, d.metaspace, " ")
		default:
			for _, r := range d.replacements {
				text = strings.ReplaceAll(text, r.old, r.text)
			}
			if b, ok := byteToken(text); ok && d.byteFallback {
				text, d.isByte[id] = string([]byte{b}), true
			}
			d.pieces[id] = text
		}
	}
}

// byteToken is the byte that a token <0xNN> stands for.
func byteToken(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

// Decode turns tokens back into text, without the special ones if skipSpecial is set. No spaces are cleaned up. Ids that
// no token has stand for nothing, as in Hugging Face; a model may have more of them than its tokenizer. Bytes that are
// not UTF-8 become U+FFFD, so the text is valid.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.Stream(skipSpecial)
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = s.append(out, id)
	}
	return string(s.finish(out))
}

// Stream decodes tokens as they come and never gives out part of a character.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	begun       bool
	strip       int
	held        []byte // the beginning of a character, or with byte fallback the bytes since the last other token
}

// Stream begins a new text. What [Stream.Add] and [Stream.Flush] give out, joined, is what [Tokenizer.Decode] makes of
// all the tokens.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, strip: t.decoder.stripCount}
}

// Add gives out the text that is certain now that a token has come; it may be empty. A byte-level tokenizer holds back
// at most the three bytes of a character that has begun. One with byte fallback holds back a run of byte tokens until it
// ends, since all of a run becomes U+FFFD when any of it is not UTF-8.
func (s *Stream) Add(id int32) string { return string(s.append(nil, id)) }

// Flush gives out what is held back at the end of a text: a character that was cut short is U+FFFD. The stream is then
// at its beginning again.
func (s *Stream) Flush() string { return string(s.finish(nil)) }

// Held is the number of bytes that are held back now.
func (s *Stream) Held() int { return len(s.held) }

func (s *Stream) append(out []byte, id int32) []byte {
	d := &s.t.decoder
	if !s.t.has(id) || s.skipSpecial && s.t.special[id] {
		return out
	}
	piece := d.pieces[id]
	switch {
	case d.byteLevel:
		s.held = append(s.held, piece...)
		return s.emitValid(out, false)
	case d.isByte[id]:
		s.held = append(s.held, piece...)
		return out
	case d.metaspace != "" && d.front && !s.begun:
		piece = strings.ReplaceAll(s.t.texts[id], d.metaspace, "")
	}
	s.begun = true
	return s.emit(s.emitBytes(out), piece)
}

func (s *Stream) finish(out []byte) []byte {
	if s.t.decoder.byteLevel {
		out = s.emitValid(out, true)
	} else {
		out = s.emitBytes(out)
	}
	s.begun, s.strip = false, s.t.decoder.stripCount
	return out
}

// emitBytes appends the run of byte tokens that has ended: as text, or if it is not UTF-8 one U+FFFD for every byte.
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

// emitValid appends what is certain of the held bytes: whole characters, and a U+FFFD for every maximal part of one that
// cannot become one (Unicode 3.9, U+FFFD Substitution of Maximal Subparts). Finally it is all of them.
func (s *Stream) emitValid(out []byte, final bool) []byte {
	held := s.held
	for len(held) > 0 {
		if r, size := utf8.DecodeRune(held); r != utf8.RuneError || size > 1 {
			out = append(out, held[:size]...)
			held = held[size:]
			continue
		}
		// An encoded surrogate is waited for whole, as Python's incremental decoder does, though it never is a character.
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
