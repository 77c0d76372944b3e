// Package openai requests chat completions from OpenAI-compatible endpoints, as a long
// unattended run needs them: with timeouts, retries, several endpoints at once, adaptive
// concurrency, and answers that are known to be complete.
//
// A request goes through these files in this order:
//
//	request.go   the exact bytes to send, and the cache key made from them
//	pool.go      Complete: wait for a slot, send, judge the attempt, retry
//	queue.go     slots: who waits, and which endpoint is next
//	endpoint.go  the state of one endpoint: its circuit breaker and its pauses
//	limit.go     how many requests an endpoint gets at once
//	exchange.go  one attempt on the wire: headers, redirects, timeouts, sizes
//	events.go    the body as a clean sequence of events
//	assembly.go  the events assembled into an answer, or found to be damaged
//	content.go   texts and numbers in the forms in which servers send them
//	failure.go   what a status, an error body or a broken connection means
//	errors.go    the three errors that a caller sees
//
// An answer counts only if it has a finish reason and its text is not in doubt. How its
// form deviates from OpenAI's does not matter: [Answer] says what deviates. The package
// removes the key from everything that comes from the network before it returns it, and
// wraps no raw network error. One case is out of its reach: if a server sends unsolicited
// bytes, net/http logs them with the standard logger of package log, so a command should
// give that logger a writer that removes the key.
package openai
