// Package serve answers the HTTP APIs of OpenAI and Anthropic with models of this machine. A [Server] is an
// [net/http.Handler]; what generates is a [Generator], such as a batch.Batch.
//
// What a request asks for and the server cannot do is refused by the field's name, with status 400 and in the form
// of the API, unless the field changes nothing. Fields that nobody knows are ignored, and named in the header
// X-Restyle-Ignored. Nothing that a request names is ever fetched: no address, no file.
//
// What streams look like follows from what clients check (openai-python, openai-node, ai-sdk, go-openai, openai-go):
// the first delta has the role, every choice has a finish reason, [DONE] always comes, and an error is a line of
// data, after which the body breaks off, since many clients take a body that ends in order for a whole answer.
package serve
