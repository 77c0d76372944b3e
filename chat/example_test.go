package chat_test

import (
	"fmt"
	"strings"

	"restyle/chat"
)

// ExampleTemplate_Render renders a conversation for Zephyr or TinyLlama, and prints which parts are targets in
// training.
func ExampleTemplate_Render() {
	template, err := chat.ByName("zephyr")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := template.Render([]chat.Message{
		{Role: "user", Content: "What is </s>?"},
		{Role: "assistant", Content: "An end."},
	}, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Text)
	for _, s := range r.Targets {
		fmt.Printf("target %q\n", r.Text[s.Start:s.End])
	}
	for _, s := range r.Markup {
		fmt.Printf("markup %q\n", r.Text[s.Start:s.End])
	}
	// Output:
	// <|user|>
	// What is </s>?</s>
	// <|assistant|>
	// An end.</s>
	// target "An end.</s>"
	// markup "<|user|>\n"
	// markup "</s>\n<|assistant|>\n"
	// markup "</s>\n"
}

// ExampleDetect recognizes a model's template by the text of chat_template in its tokenizer_config.json.
func ExampleDetect() {
	chatml, err := chat.ByName("chatml")
	if err != nil {
		panic(err)
	}
	template, err := chat.Detect(chatml.Jinja())
	fmt.Println(template.Name, template.Stops(), err)

	_, err = chat.Detect("{{ messages[0].text }}")
	_, reason, _ := strings.Cut(err.Error(), ": ")
	reason, _, _ = strings.Cut(reason, ";")
	fmt.Println(reason)
	// Output:
	// chatml [<|im_end|> <|endoftext|>] <nil>
	// it leaves out the question of a user
}

// ExampleTemplate_Fit drops the oldest turns of a conversation that is too long for a model. Here, words count as
// tokens.
func ExampleTemplate_Fit() {
	words := func(r chat.Rendered) int { return len(strings.Fields(r.Text)) }
	left, gone, err := chat.Raw().Fit([]chat.Message{
		{Role: "system", Content: "Be brief."},
		{Role: "user", Content: "Who wrote Faust?"},
		{Role: "assistant", Content: "Goethe."},
		{Role: "user", Content: "And Emma?"},
	}, chat.Options{}, 6, words)
	for _, m := range left {
		fmt.Println(m.Role+":", m.Content)
	}
	fmt.Println(gone, err)
	// Output:
	// system: Be brief.
	// user: And Emma?
	// 1 <nil>
}
