// Package trainer is the loop that fine-tunes a model, or trains one from nothing: steps, evaluation, checkpoints, and going
// on from a checkpoint as if nothing had happened.
//
//	for each step:
//	    the step's examples, from the order of its epoch          plan.go
//	    gradients, micro-batch by micro-batch                     step.go
//	    norm, clip, AdamW
//	    now and then: validation loss, sample answers             evaluate.go
//	    now and then: a checkpoint                                state.go
//
// Everything that decides a bit of the result follows from Settings, the examples and the number of the step. So the whole
// state of a run between two steps is weights, the optimiser's state and a few numbers, and a run that was killed and
// resumed ends with the same bits as one that was not.
//
// What a resumed run keeps:
//
//   - of its checkpoint: weights, the optimiser's state, and state.json (State): the number of the step and of updates, the
//     counters, the best evaluation, the patience that is left, and an evaluation that was interrupted, which comes first;
//   - the best weights, in a directory of their own beside the checkpoints, which are looked at before they are needed;
//   - the lines of metrics.jsonl up to the checkpoint; those behind it are cut off and written again;
//   - the identity, which has to be the same: data, model, and all settings that decide bits (Settings.Recipe). Other settings,
//     such as how often it is saved, may change. Epochs and the limit of steps may grow, also after the last step: the learning
//     rate is from there on that of the longer run;
//   - the decisions, which were taken for the machine that it began on: the instruction set, and how micro-batches share
//     passes. Results of another instruction set differ in their last bits.
//
// The order of the examples, the learning rate and the random numbers of stochastic rounding need no state: they are functions
// of the seed and the number of the step.
package trainer
