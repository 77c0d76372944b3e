package main

// noneMutants are the faults of numbers at their none: 0 taken for the default, or for no limit where it is one.
var noneMutants = []mutant{
	{"none/no-retries-are-five", "cmd/gen/choose.go", "	if n == 0 {\n		return -1\n	}\n	return n\n", "	return n\n", "./cmd/gen -run TestNumbers"},
	{"none/all-rows-are-the-default", "cmd/gen/choose.go", "		if !g.rowsGiven {\n", "		if g.rows == 0 || !g.rowsGiven {\n", "./cmd/gen -run TestNumbers"},
	{"none/a-timeout-of-0-is-taken", "cmd/gen/options.go", "if limit.time <= 0 {", "if limit.time < 0 {", "./cmd/gen -run TestNumbers"},
	{"none/no-tone-is-the-lowest", "cmd/gen/options.go", "case o.minTone < 0 || o.minTone > 5:", "case o.minTone > 5:", "./cmd/gen -run TestNumbers"},
	{"none/a-cost-without-prices", "cmd/gen/gen.go", "if g.priceIn == 0 && g.priceOut == 0 {", "if g.priceIn < 0 {", "./cmd/gen -run TestNumbers"},
	{"none/a-given-0-is-not-given", "cmd/chat/options.go", "		if o.set.Given(name) {\n			continue\n		}\n", "		if o.set.Given(name) && o.set.Lookup(name).Value.String() != \"0\" {\n			continue\n		}\n", "./cmd/chat -run TestNumbers"},
	{"none/no-decay-is-some", "trainer/config.go", "Eps: c.Eps, Decay: c.WeightDecay,", "Eps: c.Eps, Decay: max(0.01, c.WeightDecay),", "./cmd/train -run TestNumbers"},
	{"none/no-clipping-clips-at-1", "trainer/step.go", "r.Optimizer.Step(lr, r.Plan.Config.Clip)", "r.Optimizer.Step(lr, max(1, r.Plan.Config.Clip))", "./cmd/train -run TestNumbers"},
	{"none/a-given-0-gives-way", "cmd/train/presets.go", "		if t.flags.Given(name) {", "		if t.flags.Given(name) && t.flags.Lookup(name).Value.String() != \"0\" {", "./cmd/train -run TestNumbers"},
	{"none/no-warmup-is-a-step", "optim/schedule.go", "		if step < warmup {\n			return lr *", "		if step < max(1, warmup) {\n			return lr *", "./cmd/train -run TestNumbers"},
	{"none/no-samples-are-one", "cmd/train/inputs.go", "	if t.config.Samples > 0 {", "	if t.config.Samples = max(1, t.config.Samples); true {", "./cmd/train -run TestNumbers"},
	{"none/nothing-held-out-is-some", "cmd/train/inputs.go", "set.Split(t.val,", "set.Split(max(0.05, t.val),", "./cmd/train -run TestNumbers"},
	{"none/no-limit-of-questions-is-none", "cmd/bench/quality.go", "	if o.limit == 0 {", "	if o.limit < 0 {", "./cmd/bench -run TestNumbers"},
	{"none/the-epoch-is-one-step", "cmd/bench/train.go", "	o.settings.MaxSteps = o.steps\n", "	o.settings.MaxSteps = max(1, o.steps)\n", "./cmd/bench -run TestNumbers"},
	{"none/a-negative-number-of-rows", "cmd/bench/step.go", "if o.headRows < 0 {", "if false {", "./cmd/bench -run TestNumbers"},
	{"none/seconds-for-ever", "cmd/bench/pages.go", "seconds > 0 && seconds <= maxSeconds", "seconds > 0", "./cmd/bench -run TestNumbers"},
}
