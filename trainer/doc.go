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
package trainer
