// Package dataset reads rows of instructions and answers, and the certificates of rows that gen wrote.
//
// [Open] turns a path, a hub dataset id or the embedded starter set into a [Source] of [Row]s. [OpenConversations]
// reads the same sources as [Conversation]s to train on. The content of a file decides its format: a JSON array or JSON
// lines (json.go), or parquet (parquet.go). A child process with limits decodes parquet files from outside (child.go),
// so every command that reads them starts with
//
//	if dataset.IsChild() {
//		os.Exit(dataset.ChildMain())
//	}
//
// [Rewritten] is a row of gen's output. [Certify] finds the rows of a finished file that are unchanged since gen
// checked them.
//
// [Question] is the only place where an instruction and its input become what a person would have typed.
//
// Package training turns conversations into tokens and labels, and package output writes gen's files.
package dataset
