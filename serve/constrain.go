package serve

import "restyle/chat"

// constrain reads what limits the tokens of an answer, and the tools that it may call: what it does not read is refused
// with the other fields that nobody reads.
func (s *Server) constrain(b *body, q *question, o *chat.Options) {
	_, _, _ = b, q, o
}
