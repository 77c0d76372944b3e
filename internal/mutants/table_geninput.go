package main

// geninputMutants are the faults of gen's sources, samples and rejects.
var geninputMutants = []mutant{
	{"geninput/origin-first", "dataset/sources.go", "\t\tat--\n", "\t\tat = 0\n", "./dataset -run TestSources"},
	{"geninput/index-restarts", "dataset/sources.go", "row.Index = s.index", "_ = row.Index", "./dataset -run TestSources"},
	{"geninput/sample-more", "dataset/sources.go", "at >= uint64(s.need)", "at > uint64(s.need)", "./dataset -run TestSample"},
	{"geninput/sample-first", "dataset/sources.go", "s.random.Uint64()", "s.random.Uint64()>>8", "./dataset -run TestSample"},
	{"geninput/sample-unseeded", "dataset/sources.go", "rand.NewPCG(seed, 0)", "rand.NewPCG(0, 0)", "./dataset -run TestSample"},
	{"geninput/bad-goes-on", "dataset/bad.go", "\tif !s.skip {\n", "\tif false {\n", "./dataset -run TestBadRowIsFinal"},
	{"geninput/bad-first-lost", "dataset/source.go", "s.bad, err = bad, nil", "err = nil", "./dataset -run TestBadRows"},
	{"geninput/bad-uncounted", "dataset/source.go", "err == nil || ok && bad.Skipped {\n\t\ts.index++", "err == nil || ok && !bad.Skipped {\n\t\ts.index++", "./dataset -run TestBadRows"},
	{"geninput/exchange-system", "dataset/bad.go", "m.Role != \"user\"", "i > 0 && m.Role != \"user\"", "./dataset -run TestExchanges"},
	{"geninput/exchange-any", "dataset/bad.go", "next.Role != \"assistant\"", "next.Role == \"user\"", "./dataset -run TestExchanges"},
	{"geninput/rejects-kept", "dataset/output/rejects.go", "if len(r.counts) > 0 {", "if true {", "./dataset/output -run TestRejects"},
	{"geninput/rejects-order", "teacher/reject.go", "d.rejects[n].index < undecided", "true", "./cmd/gen -run TestRejectedRows"},
	{"geninput/rejects-given-up", "teacher/decide.go", "\t\td.reject(t.prompt.Row, *t.failed, len(t.refusals), t.answer.Text)\n", "", "./cmd/gen -run TestRejectedRows"},
	{"geninput/certificate-source", "teacher/decide.go", "SourceRow: at,", "SourceRow: max(at, p.Row.Index),", "./cmd/gen -run TestSeveralSources"},
	{"geninput/sources-unset", "cmd/gen/gen.go", "{Name: \"source\", Value: g.each(func(s *dataset.Source) string { return s.Name })},", "", "./cmd/gen -run TestOtherSources"},
	{"geninput/fold-judge", "teacher/judge.go", "g.fold([]openai.Message{", "([]openai.Message{", "./cmd/gen -run TestFoldSystem"},
	{"geninput/fold-lost", "teacher/remote.go", "messages[0].Content + \"\\n\\n\" + ", "", "./cmd/gen -run TestFoldedMessages"},
	{"geninput/indent-kept", "teacher/splice.go", "dedent(text, p.Indent)", "text", "./teacher -run TestSplitFences"},
	{"geninput/indent-all", "teacher/splice.go", "line[n] == indent[n]", "line[n] <= ' '", "./teacher -run TestSplitFences|FuzzSplit"},
	{"geninput/stray-unseen", "teacher/splice.go", "[-*+>]|", "[-*+]|", "./teacher -run TestStrayFences"},
	{"geninput/closed-early", "voice/fences.go", "min(indent, len(before)+3)", "indent", "./teacher ./voice -run TestSplitFences|TestPieces"},
	{"geninput/sample-unset", "cmd/gen/gen.go", "if g.sample > 0 {\n\t\ts = append", "if false {\n\t\ts = append", "./cmd/gen -run TestOtherSources"},
}
