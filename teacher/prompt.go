package teacher

import (
	"fmt"
	"strings"

	"restyle/dataset"
	"restyle/teacher/openai"
	"restyle/voice"
)

// A Prompt has what a teacher is told about one row.
type Prompt struct {
	Style      *voice.Style
	Row        dataset.Row
	Question   string // instruction and input joined
	Parts      Parts
	Assignment Assignment
	Seed       uint64 // of this attempt
	Comments   bool   // also ask for remarks on lines of code
	Language   string // as Run.Language

	Attempt  int    // from 1
	Previous string // answer of the attempt before, if there was one
	Reason   string // why Previous was refused
	Longer   bool   // Previous was truncated: allow more tokens
}

// protocol follows every style's system prompt: how to stand in for code and where to put the answer. The system prompt
// comes first and is the same for every row, so that servers with a prefix cache compute it once.
//
//nolint:lll // a prompt
const protocol = `

How to answer:
- You are shown a question and the code that answers it, as <code id="1">, <code id="2"> and so on. Write the words around the code, never the code itself.
- Where a block of code belongs, put its placeholder, [[CODE_1]], [[CODE_2]] and so on: each exactly once, in order, alone on its own line. The code is put there for you, unchanged.
- Use backticks only for names that stand in the code, for Python keywords and for built-in functions. No other code, no fenced blocks.
- Do not say what the code prints or returns as a value, and do not invent results.
- Do not mention these instructions, a tone, a role, a previous answer, or that anything was changed.
- Write the whole answer between <rewrite> and </rewrite>, and nothing after it.`

// commentProtocol is added if the prompt asks for remarks.
//
//nolint:lll // a prompt
const commentProtocol = `
- Before <rewrite>, write <comments>, then one to three lines of the form L3: remark, each a short remark on that numbered line of the code in the same voice, without results or values, then </comments>. With several blocks write C2L3: remark for line 3 of block 2.`

// proseProtocol is protocol for answers whose prose is restated. Styles are written for words around code, and their
// examples contain code.
//
//nolint:lll // a prompt
const proseProtocol = `

This time there is a question with its answer in prose, as <answer>. Give that answer in the same voice. What the lines above say about code, about programs, and about not explaining does not hold here.

How to answer:
- Whoever reads only your answer must learn everything that the shown answer says, and nothing else about the matter.
- Keep every number with its unit, every date, every name, and everything that is denied: what must not be done must not be done in your answer either. Add no numbers in digits.
- Copy links, e-mail addresses, file names, names in backticks and text in quotation marks character by character.
- Keep a list as a list, with as many items in the same order, each on a line of its own.
- Write in the language of the question, in whole sentences. No code, no fenced blocks, no other backticks.
- Do not mention these instructions, a tone, a role, a previous answer, or that anything was changed.
- Write the whole answer between <rewrite> and </rewrite>, and nothing after it.`

// codeInProse is added if an answer in prose also has code.
const codeInProse = `
- Where the answer has a placeholder for code, such as [[CODE_1]], put the same one: each exactly once, in order, ` +
	`alone on its own line. The code is put there for you, unchanged.`

// Messages renders the prompt as a chat: the system prompt, a few examples as turns, and the row as the last turn.
func (p *Prompt) Messages() (messages []openai.Message) {
	say := func(role, content string) {
		messages = append(messages, openai.Message{Role: role, Content: content})
	}
	if p.Parts.restated {
		return p.proseMessages()
	}
	system := strings.TrimSpace(p.Style.System) + protocol
	if p.Language != "" && p.Language != Python {
		system = strings.Replace(system, "for Python keywords", "for keywords of its language", 1)
	}
	if p.Comments {
		system += commentProtocol
	}
	say("system", system)
	for _, i := range p.Assignment.Examples {
		e := p.Style.Examples[i]
		say("user", shown(e.Question, []string{e.Code}, "", ""))
		say("assistant", "<rewrite>\n"+strings.TrimSpace(e.Rewrite)+"\n</rewrite>")
	}
	a := p.Assignment
	assignment := fmt.Sprintf("Begin with the words %q. %s Write about %d words.", a.Opener, a.Device.Instruction, a.Words)
	say("user", shown(p.Question, p.Parts.Blocks, p.Parts.Prose(), assignment))
	return append(messages, p.again()...)
}

// again returns the turns that ask once more. There are none in the first attempt.
func (p *Prompt) again() []openai.Message {
	if p.Reason == "" {
		return nil
	}
	previous := p.Previous
	if strings.TrimSpace(previous) == "" {
		previous = "<rewrite>\n</rewrite>" // several servers refuse an empty turn
	}
	return []openai.Message{{Role: "assistant", Content: previous}, {Role: "user",
		Content: "That answer cannot be used: " + p.Reason + ". Write it anew, in other words, with all of the rules kept."}}
}

// proseMessages is Messages for an answer whose prose is restated. The style's examples answer with code, so only their
// words are shown.
func (p *Prompt) proseMessages() []openai.Message {
	system := strings.TrimSpace(p.Style.System) + proseProtocol
	var b strings.Builder
	if len(p.Parts.Blocks) > 0 {
		system += codeInProse
	}
	if len(p.Assignment.Examples) > 0 {
		b.WriteString("The voice, in answers to other questions:\n\n")
	}
	for _, i := range p.Assignment.Examples {
		words := voice.Prose(p.Style.Examples[i].Rewrite)
		fmt.Fprintf(&b, "%s\n\n", strings.Join(strings.Fields(words), " "))
	}
	fmt.Fprintf(&b, "<question>\n%s\n</question>\n<answer>\n%s\n</answer>\n", p.Question, strings.TrimSpace(p.Parts.Text))
	for i, code := range p.Parts.Blocks {
		fmt.Fprintf(&b, "<code id=\"%d\">\n%s\n</code>\n", i+1, strings.TrimRight(code, "\n"))
	}
	a := p.Assignment
	fmt.Fprintf(&b, "Begin with the words %q. %s Write about %d words.", a.Opener, a.Device.Instruction, a.Words)
	return append([]openai.Message{{Role: "system", Content: system}, {Role: "user", Content: b.String()}}, p.again()...)
}

// shown returns the user turn for a question with its code. The lines of code have no numbers, because the model might
// repeat them.
func shown(question string, blocks []string, prose, assignment string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<question>\n%s\n</question>\n", question)
	for i, code := range blocks {
		fmt.Fprintf(&b, "<code id=\"%d\">\n%s\n</code>\n", i+1, strings.TrimRight(code, "\n"))
	}
	if prose != "" {
		fmt.Fprintf(&b, "<explanation>\n%s\n</explanation>\n", prose)
	}
	b.WriteString(assignment)
	return strings.TrimSpace(b.String())
}

// stopSequence ends an answer. Servers usually cut it off.
const stopSequence = "</rewrite>"

// The tags around the thoughts of reasoning models, in servers that leave them in the answer. Some chat templates write
// the first tag into the prompt, so that the answer has only the second.
const thinks, thought = "<think>", "</think>"

// thinking reports whether an answer ends within its thoughts.
func thinking(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), thinks) && !strings.Contains(text, thought)
}

// afterThoughts returns the part of an answer after its thoughts, which may mention the tag that the rewrite is in.
func afterThoughts(text, tag string) string {
	if _, after, ok := strings.Cut(text, thought); ok && strings.Contains(after, tag) {
		return after
	}
	return text
}

// unwrap returns the rewrite in a teacher's answer, and the comments if there are any. It drops everything outside the
// tags.
func unwrap(text string) (rewrite, comments string, err error) {
	if thinking(text) {
		return "", "", fmt.Errorf("it ended inside its thoughts: think less, and answer after %s", thought)
	}
	text = afterThoughts(text, "<rewrite>")
	before, body, found := strings.Cut(text, "<rewrite>")
	if !found {
		return "", "", fmt.Errorf("the answer has no <rewrite> tag")
	}
	body, _, _ = strings.Cut(body, stopSequence)
	if strings.Contains(body, "<rewrite>") {
		return "", "", fmt.Errorf("the answer has more than one <rewrite> tag")
	}
	if _, c, ok := strings.Cut(before, "<comments>"); ok {
		comments, _, _ = strings.Cut(c, "</comments>")
	}
	return strings.TrimSpace(body), strings.TrimSpace(comments), nil
}
