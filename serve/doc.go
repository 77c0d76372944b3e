// Package serve implements the HTTP APIs of OpenAI and Anthropic with models on this machine. A [Server] is a
// [net/http.Handler]; a [Generator], such as a batch.Batch, generates the answers.
//
// If a request asks for something that the server cannot do, the server refuses it with status 400, in the form of
// the API, and names the field, unless the field changes nothing. The server ignores unknown fields and names them in
// the header X-Restyle-Ignored. Nothing that a request names is ever fetched: no address, no file.
//
// The form of streams follows from what clients check (openai-python, openai-node, ai-sdk, go-openai, openai-go):
// the first delta has the role, every choice has a finish reason, [DONE] always comes, and an error is a line of
// data, after which the body breaks off, since many clients take a body that ends in order for a whole answer.
package serve
