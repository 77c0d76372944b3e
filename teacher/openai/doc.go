// Package openai asks OpenAI-compatible endpoints for chat completions, over
// github.com/sashabaranov/go-openai, and adds what a long unattended run needs:
// timeouts, retries, several endpoints at once, a concurrency that adapts, and
// answers that are known to be whole.
//
// A request goes through these files in this order:
//
//	request.go   the exact bytes that are sent, and the cache key made of them
//	pool.go      Complete: wait for a slot, try, judge, try again
//	queue.go     slots: who waits, and which endpoint is next
//	endpoint.go  what is known of one endpoint: its circuit and its pauses
//	limit.go     how many requests an endpoint is given at once
//	exchange.go  one attempt on the wire: headers, redirects, timeouts, sizes
//	events.go    the body as a clean sequence of events
//	assembly.go  events put together into an answer, or found to be damaged
//	failure.go   what a status, an error body or a broken connection means
//	errors.go    the three errors a caller sees
//	secret.go    the key, and keeping it out of every text
//
// An answer counts only if a finish reason was seen and nothing contradicted it.
// Everything that comes from the network has the key removed before it is
// returned, and no raw network error is wrapped. One thing is out of reach: when
// a server sends bytes that nobody asked for, net/http quotes them to the standard
// logger of package log, so a command should give that a writer which scrubs.
package openai
