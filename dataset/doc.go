// Package dataset reads rows of instructions and answers from the outside world,
// makes of them what a model is trained on, and writes rewritten ones with their
// certificates.
//
// Reading starts at [Open], which turns a path, a hub dataset id or the embedded
// starter set into a [Source] of [Row]s. Files are recognised by what is in them:
// a JSON array and JSON lines (json.go), or parquet (parquet.go). Parquet files
// from outside are decoded in a child process with limits (child.go), so every
// command that reads them begins with
//
//	if dataset.IsChild() {
//		os.Exit(dataset.ChildMain())
//	}
//
// Training starts at [Load]. Its way, a file each:
//
//	a Source's records    -> [Conversation]s   what was said, and by whom (conversation.go, messages.go)
//	a Conversation        -> an [Example]      tokens, and which of them are learned (example.go, looked at with show.go)
//	Examples              -> a [Set]           counted and hashed (set.go; text.go for plain text)
//	a Set's Examples      -> two parts         to train on and to validate with ([Set.Split], order.go)
//	an epoch              -> [Order], [Pack]   which example comes when, and in which row (order.go, pack.go)
//
// All of it is exact: a set, its split, its order and its packing follow from the
// data and the settings alone, on any machine and any number of threads.
//
// Writing starts at [Create], whose [Output] streams rows and certificates and
// puts both in place at the end (output.go, write.go, file.go). [Certify] tells
// which rows of a finished file are still the ones that were checked.
//
// [Question] is the one place where an instruction and its input become what a
// person would have typed.
package dataset
