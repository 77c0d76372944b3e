package main

// afterMutants are the faults of what comes after: counts in a row that begin again, and the step after one that failed.
var afterMutants = []mutant{
	{"after/failures-never-forgotten", "teacher/decide.go", "	d.failures = nil\n", "", "./teacher -run InARow"},
	{"after/useless-never-forgotten", "teacher/paid.go", "		d.useless = nil\n", "", "./teacher -run InARow"},
	{"after/one-useless-more", "teacher/paid.go", "len(d.useless) >= maxUseless", "len(d.useless) > maxUseless", "./teacher -run InARow"},
	{"after/one-fruitless-less", "teacher/decide.go", "case len(d.failures) >= most:", "case len(d.failures) >= most-1:", "./teacher -run InARow"},
	{"after/one-refusal-more", "teacher/decide.go", "len(d.failures) >= maxRefusals", "len(d.failures) > maxRefusals", "./teacher -run InARow"},
	{"after/a-batch-without-a-row-goes-on", "teacher/decide.go", "d.live() || d.sum.Accepted == 0 && d.sum.Pending == 0", "d.live()", "./teacher -run InARow"},
	{"after/held-back-late", "teacher/paid.go", "len(d.useless) >= suspicious", "len(d.useless) > suspicious", "./teacher -run HoldsBack"},
	{"after/the-journal-counts-as-asked", "teacher/paid.go", "case !t.asked || !d.live():", "case !d.live():", "./teacher -run HoldsBack"},
	{"after/the-circuit-remembers-failures", "teacher/openai/endpoint.go", "e.failures, e.opened, e.reason, e.throttled = 0, 0,", "e.opened, e.reason, e.throttled = 0,", "./teacher/openai -run InARow"},
	{"after/probes-wait-as-before", "teacher/openai/endpoint.go", "e.failures < failuresToOpen", "e.failures < failuresToOpen-1", "./teacher/openai -run InARow"},
	{"after/dead-since-the-first-failure", "teacher/openai/queue.go", "			p.deadSince = time.Time{}\n", "", "./teacher/openai -run InARow"},
	{"after/strikes-never-forgotten", "teacher/openai/limit.go", "l.base, l.best, l.strikes = l.n, rate, 0", "l.base, l.best = l.n, rate", "./teacher/openai -run InARow"},
	{"after/holds-only-grow", "teacher/openai/limit.go", "l.base, l.best, l.patience = l.n, rate, firstHold", "l.base, l.best = l.n, rate", "./teacher/openai -run InARow"},
	{"after/progress-no-progress", "hf/hub/request.go", "		if gained >= worthwhile {\n			failures = 0\n		}\n", "		_ = gained\n", "./hf/hub -run InARow"},
	{"after/a-byte-is-progress", "hf/hub/request.go", "gained >= worthwhile", "gained > worthwhile/2", "./hf/hub -run InARow"},
	{"after/one-try-less", "hf/hub/request.go", "failures++; failures == maxTries", "failures++; failures == maxTries-1", "./hf/hub -run InARow"},

	{"after/a-failed-question-stays", "cmd/chat/answer.go", "			r.messages = r.messages[:len(r.messages)-1]\n", "", "./cmd/chat -run AfterAnError"},
	{"after/an-edit-that-failed-deletes", "cmd/chat/answer.go", "			r.putBack()\n", "", "./cmd/chat -run AfterAnError"},
	{"after/a-replaced-answer-comes-back", "cmd/chat/answer.go", "		r.replaced = nil\n", "", "./cmd/chat -run AfterAnError|Session"},
	{"after/regen-takes-back-what-was-not-asked", "cmd/chat/answer.go", "	s.start = len(s.messages)\n", "	s.start = max(0, len(s.messages)-2)\n", "./cmd/chat -run AfterAnError|Session"},
	{"after/a-bad-setting-is-kept", "cmd/chat/commands.go", "	if err := s.check(); err != nil {\n		return err\n	}\n	c.settings = s\n", "	c.settings = s\n	if err := s.check(); err != nil {\n		return err\n	}\n", "./cmd/chat -run AfterAnError"},
	{"after/one-stop-stops-all", "cmd/chat/interrupts.go", "	i.stopped = false\n", "", "./cmd/chat -run AfterAnError|Interrupt"},
	{"after/a-prompt-half-read-counts-as-read", "infer/generate.go", "		e.cached = append(e.cached, ids...)\n", "		e.cached = append(e.cached, g.feed...)\n", "./infer -run AfterAnError"},
	{"after/the-cache-is-not-trimmed", "infer/generate.go", "	e.trim(g.result.Reused)\n", "", "./infer -run AfterAnError"},
}
