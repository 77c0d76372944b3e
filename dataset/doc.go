// Package dataset reads rows of instructions and answers from the outside world
// and writes rewritten ones with their certificates.
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
// Writing starts at [Create], whose [Output] streams rows and certificates and
// puts both in place at the end (output.go, encode.go, file.go). [Certify] tells
// which rows of a finished file are still the ones that were checked.
//
// [Question] is the one place where an instruction and its input become what a
// person would have typed.
package dataset
