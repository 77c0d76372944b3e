// Package trainer fine-tunes a model, or trains one from random weights: steps, evaluation, checkpoints, and resuming
// from a checkpoint with the same bits as an uninterrupted run.
//
// A program sets up a run in five calls; the example has all of it:
//
//	config, err := trainer.ConfigFor(base, false)                     // the defaults, and what suits the model
//	plan, err := trainer.NewPlan(config, examples, heldOut)           // passes, steps and learning rates
//	job := trainer.NewJob(device, base, plan, trainer.JobOptions{})   // fitted to a device; knows its memory
//	run, err := job.Open(ctx, dir, "")                                // allocates, compiles, reads the weights
//	err = run.Start(ctx)                                              // a new run, or one that resumes
//
// The module has no address to download it from: a program's go.mod names a clone of the repository.
//
//	require restyle v0.0.0
//	replace restyle => ../restyle
//
// Package training reads examples, and its Set.Split holds some out. [Run.Run] then takes the steps, and [Run.Save]
// writes the result:
//
//	for each step:
//	    the step's examples, from the order of its epoch          plan.go
//	    gradients, pass by pass                                   step.go
//	    norm, clipping, AdamW
//	    every so often: validation loss, samples                  evaluate.go
//	    every so often: a checkpoint                              state.go
//
// The settings, the examples and the number of the step decide every bit of the result. So the whole state of a run
// between two steps is the weights, the optimizer's state and a few numbers, and a run that is killed and resumed ends
// with the same bits as one that is not.
//
// A resumed run takes over
//
//   - from its checkpoint: the weights, the optimizer's state, and state.json ([State]), which has the number of the
//     step and of updates, the counters, the best evaluation, the patience that is left, and an evaluation that was
//     interrupted, which comes first;
//   - the best weights, in a directory next to the checkpoints; the run checks them before it needs them;
//   - the lines of metrics.jsonl up to the checkpoint; it truncates the file there and writes the rest again;
//   - the identity, which has to be the same: data, model, and all settings that decide bits (fields of [Config]
//     that are not [Field.Free]). Other settings may change, such as how often it saves. Epochs and the maximum
//     number of steps may grow, even after the last step: from there on the learning rate follows the longer run;
//   - the decisions for the machine that it started on: the instruction set, and how micro-batches share passes.
//     Results of another instruction set differ in their last bits.
//
// The order of the examples, the learning rate and the random numbers of stochastic rounding need no state, because
// they are functions of the seed and the number of the step.
package trainer
