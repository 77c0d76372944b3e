// Package trainer fine-tunes a model, or trains one from scratch: the training loop with evaluation, and checkpoints
// from which a killed run continues as if nothing had happened. See the example.
//
//	[Config]   the settings; [Config.Fields] has the name, default, range and help of each
//	[Plan]     which examples each step takes, from settings and examples alone
//	[Job]      a plan on a device: passes, memory, what to change if it does not fit; nothing is allocated
//	[Run]      a job with its model open: [Run.Start], [Run.Run], [Run.Save]
//
// The loop:
//
//	for each step:
//	    the step's examples, in the order of its epoch            plan.go
//	    gradients, pass by pass                                   step.go
//	    norm, clipping, AdamW
//	    when it is due: validation loss, samples                  evaluate.go
//	    when it is due: a checkpoint                              state.go
//
// Every bit of the result follows from Config, the examples and the number of the step. So the whole state of a run
// between two steps is its weights, the optimizer's state and a few numbers, and a run that was killed and resumed ends
// with the same bits as one that was not.
//
// A resumed run keeps:
//
//   - from its checkpoint: the weights, the optimizer's state, and state.json ([State]): the number of the step and of
//     updates, the counters, the best evaluation, the patience that is left, and an evaluation that was interrupted,
//     which comes first;
//   - the best weights, in a directory of their own next to the checkpoints, which is verified before it is needed;
//   - the lines of metrics.jsonl up to the checkpoint; those after it are cut off and written again;
//   - its identity, which must be the same: the data, the model, and all settings that decide bits ([Plan.Recipe]).
//     Other settings, such as how often it saves, may change. Epochs and MaxSteps may grow, also after the last step:
//     from there on the learning rate is that of the longer run;
//   - its decisions, which were made for the machine that it began on: the instruction set, and how micro-batches share
//     passes. With another instruction set, results differ in their last bits.
//
// The order of the examples, the learning rate and the random numbers of stochastic rounding need no state: they are
// functions of the seed and the number of the step.
package trainer
