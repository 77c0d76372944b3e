package main

// stepMutants are the faults of timing steps, and of what is said of their time and memory.
var stepMutants = []mutant{
	{"step/estimate-too-small-unseen", "cmd/bench/step_table.go", "math.Abs(off) > maxEstimateError", "math.Max(off, 0) > mostWrong", "./cmd/bench -run TestStepCheck"},
	{"step/estimate-unchecked", "cmd/bench/step.go", "	if o.check {", "	if o.check && table == nil {", "./cmd/bench -run TestStepOnFilledGPU"},
	{"step/estimate-overhead", "cmd/bench/step.go", ".Total() + d.Overhead()", ".Total()", "./cmd/bench -run TestStepOnGPU"},
	{"step/median", "cmd/bench/step_table.go", "r.Seconds[len(r.Seconds)/2]", "r.Seconds[0]", "./cmd/bench -run TestStepBeside"},
	{"step/unsorted", "cmd/bench/step_table.go", "	slices.Sort(r.Seconds)\n", "	slices.Sort(r.Seconds[:0])\n", "./cmd/bench -run TestStepBeside"},
	{"step/joules-of-all-steps", "cmd/bench/step_table.go", "Joules: r.Joules / steps,", "Joules: r.Joules,", "./cmd/bench -run TestStepBeside"},
	{"step/joules-printed-of-all-steps", "cmd/bench/step_table.go", "r.Joules/steps/float64(tokens)", "r.Joules/float64(tokens)", "./cmd/bench -run TestStepBeside"},
	{"step/share-in-per-cent", "cmd/bench/step_table.go", "PeakShare: flops / t.ceiling,", "PeakShare: 100 * flops / t.ceiling,", "./cmd/bench -run TestStep"},
	{"step/seconds-ignored", "cmd/bench/step.go", "i < o.warmup+o.steps || lasting < o.seconds", "i < o.warmup+o.steps", "./cmd/bench -run TestStepSeconds"},
	{"step/beside-failure-unsaid", "cmd/bench/step.go", "err = errors.Join(err, failed)", "_ = errors.Join(err, failed)", "./cmd/bench -run TestStepBeside"},
	{"step/beside-no-seconds", "cmd/bench/beside.go", "len(r.Seconds) == 0 || r.Mode", "r.Mode", "./cmd/bench -run TestStepBeside"},
	{"step/beside-no-time", "cmd/bench/beside.go", "!(s > 0)", "!(s >= 0)", "./cmd/bench -run TestStepBeside"},
	{"step/beside-first-line", "cmd/bench/beside.go", "text[strings.LastIndexByte(text, '\\n')+1:]", "text[:max(0, strings.IndexByte(text, '\\n'))]", "./cmd/bench -run TestStepBeside"},
	{"step/first-step-with-evaluation", "cmd/train/beginning.go", "b.loaded = b.loaded.Add(", "b.loaded.Add(", "./cmd/train -run TestBeginning$"},
	{"step/last-step-for-first", "cmd/train/beginning.go", "if b.took == 0 {", "if b.took >= 0 {", "./cmd/train -run TestBeginning$"},
	{"step/resumed-never-loaded", "cmd/train/train.go", "	r.beginning.loaded = time.Now()\n	s := r.run.State()", "	r.beginning.loaded = time.Time{}\n	s := r.run.State()", "./cmd/train -run TestBeginning"},
	{"step/memory-of-the-program", "cmd/train/finish.go", "f.PeakMemory = int64(r.Device.InUse())", "_ = r.Device.InUse()", "./cmd/train -run TestGPUMemory"},
	{"step/cards-of-any-size", "trainer/process.go", "\"the driver and its code\", d.Overhead()", "\"the driver and its code\", 0", "./cmd/train -run TestCards"},
}
