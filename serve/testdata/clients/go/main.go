// Command clients prints what go-openai and openai-go make of a server: BASE_URL and KEY in the environment. It is a
// module of its own, so that restyle does not depend on theirs. See clients_test.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	official "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	openai "github.com/sashabaranov/go-openai"
)

const question = "How do I reverse a list?"

func main() {
	base, key := os.Getenv("BASE_URL")+"/v1", os.Getenv("KEY")
	if len(os.Args) > 1 && os.Args[1] == "official" {
		c := official.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
		useOfficial(context.Background(), c)
		return
	}
	config := openai.DefaultConfig(key)
	config.BaseURL = base
	useGoOpenAI(context.Background(), openai.NewClientWithConfig(config))
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func ask(model string) openai.ChatCompletionRequest {
	seed := 0
	return openai.ChatCompletionRequest{Model: model, Seed: &seed, Messages: []openai.ChatCompletionMessage{
		{Role: "user", Content: question}}}
}

func useGoOpenAI(ctx context.Context, c *openai.Client) {
	failure := func(_ any, err error) string {
		if e := (*openai.APIError)(nil); errors.As(err, &e) {
			return fmt.Sprint(e.HTTPStatusCode, " ", e.Code)
		}
		return fmt.Sprint("not an error of the API: ", err)
	}
	r, err := c.CreateChatCompletion(ctx, ask("starter"))
	check(err)
	fmt.Println("chat:", r.Choices[0].Message.Content, r.Choices[0].FinishReason, r.Usage.CompletionTokens)

	q := ask("starter")
	q.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	text, reason, usage, err := read(ctx, c, q)
	check(err)
	fmt.Println("stream:", text, reason, usage)

	q = ask("starter")
	q.Stop = []string{" reversed"}
	r, err = c.CreateChatCompletion(ctx, q)
	check(err)
	fmt.Println("stop:", r.Choices[0].Message.Content, r.Choices[0].FinishReason)

	q = ask("starter")
	q.N, q.MaxTokens = 2, 2
	r, err = c.CreateChatCompletion(ctx, q)
	check(err)
	fmt.Print("two:")
	for _, choice := range r.Choices {
		fmt.Print(" ", choice.Index, " ", choice.Message.Content, " ", choice.FinishReason)
	}
	fmt.Println()

	q = ask("starter")
	q.MaxTokens, q.LogProbs, q.TopLogProbs = 2, true, 2
	r, err = c.CreateChatCompletion(ctx, q)
	check(err)
	fmt.Print("logprobs:")
	for _, t := range r.Choices[0].LogProbs.Content {
		fmt.Printf(" %s|%.3f|%d", t.Token, t.LogProb, len(t.TopLogProbs))
	}
	fmt.Println()

	seed := 0
	one, err := c.CreateCompletion(ctx, openai.CompletionRequest{Model: "starter", Prompt: "One", MaxTokens: 3, Seed: &seed})
	check(err)
	fmt.Println("text:", one.Choices[0].Text, one.Choices[0].FinishReason)

	models, err := c.ListModels(ctx)
	check(err)
	fmt.Print("models:")
	for _, m := range models.Models {
		fmt.Print(" ", m.ID)
	}
	m, err := c.GetModel(ctx, "starter")
	check(err)
	fmt.Println("", m.ID)

	q = ask("starter")
	q.LogitBias = map[string]int{"5": 1}
	fmt.Println("refused:", failure(c.CreateChatCompletion(ctx, q)))
	fmt.Println("unknown:", failure(c.CreateChatCompletion(ctx, ask("gpt-7"))))
	q = ask("starter")
	q.Messages[0].Content = strings.Repeat("many words ", 300)
	fmt.Println("too long:", failure(c.CreateChatCompletion(ctx, q)))
	fmt.Println("full:", failure(c.CreateChatCompletion(ctx, ask("full"))))
	fmt.Println("draining:", failure(c.CreateChatCompletion(ctx, ask("closed"))))
	_, _, _, err = read(ctx, c, ask("fault"))
	if e := (*openai.APIError)(nil); !errors.As(err, &e) {
		fmt.Println("fault: not an error of the API:", err)
	} else {
		fmt.Println("fault:", e.Message)
	}
}

// read reads a stream.
func read(ctx context.Context, c *openai.Client, q openai.ChatCompletionRequest) (text, reason string, usage int, err error) {
	s, err := c.CreateChatCompletionStream(ctx, q)
	if err != nil {
		return "", "", 0, err
	}
	defer s.Close()
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return text, reason, usage, nil
		}
		if err != nil {
			return text, reason, usage, err
		}
		for _, choice := range r.Choices {
			text += choice.Delta.Content
			reason += string(choice.FinishReason)
		}
		if r.Usage != nil {
			usage = r.Usage.CompletionTokens
		}
	}
}

func useOfficial(ctx context.Context, c official.Client) {
	ask := func(model string) official.ChatCompletionNewParams {
		return official.ChatCompletionNewParams{Model: model, Seed: official.Int(0),
			Messages: []official.ChatCompletionMessageParamUnion{official.UserMessage(question)}}
	}
	failure := func(_ any, err error) string {
		if e := (*official.Error)(nil); errors.As(err, &e) {
			return fmt.Sprint(e.StatusCode, " ", e.Code)
		}
		return fmt.Sprint("not an error of the API: ", err)
	}
	r, err := c.Chat.Completions.New(ctx, ask("starter"))
	check(err)
	fmt.Println("chat:", r.Choices[0].Message.Content, r.Choices[0].FinishReason, r.Usage.CompletionTokens)

	q := ask("starter")
	q.StreamOptions = official.ChatCompletionStreamOptionsParam{IncludeUsage: official.Bool(true)}
	stream := c.Chat.Completions.NewStreaming(ctx, q)
	var all official.ChatCompletionAccumulator
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	check(stream.Err())
	fmt.Println("stream:", all.Choices[0].Message.Content, all.Choices[0].FinishReason, all.Usage.CompletionTokens)

	q = ask("starter")
	q.Stop = official.ChatCompletionNewParamsStopUnion{OfStringArray: []string{" reversed"}}
	r, err = c.Chat.Completions.New(ctx, q)
	check(err)
	fmt.Println("stop:", r.Choices[0].Message.Content, r.Choices[0].FinishReason)

	answer, err := c.Responses.New(ctx, responses.ResponseNewParams{Model: "starter",
		Input: responses.ResponseNewParamsInputUnion{OfString: official.String("Hello")}}, option.WithJSONSet("seed", 0))
	check(err)
	fmt.Println("response:", answer.OutputText(), answer.Status)

	models, err := c.Models.List(ctx)
	check(err)
	fmt.Print("models:")
	for _, m := range models.Data {
		fmt.Print(" ", m.ID)
	}
	m, err := c.Models.Get(ctx, "starter")
	check(err)
	fmt.Println("", m.ID)
	fmt.Println("unknown:", failure(c.Chat.Completions.New(ctx, ask("gpt-7"))))
	fmt.Println("full:", failure(c.Chat.Completions.New(ctx, ask("full"))))
	fmt.Println("draining:", failure(c.Chat.Completions.New(ctx, ask("closed"))))
	stream = c.Chat.Completions.NewStreaming(ctx, ask("fault"))
	for stream.Next() {
	}
	fmt.Println("fault:", stream.Err() != nil && strings.Contains(stream.Err().Error(), "The model failed on this request"))
}
