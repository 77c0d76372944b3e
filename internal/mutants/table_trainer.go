package main

// trainerMutants are the faults of the training loop, its checkpoints and reports.
var trainerMutants = []mutant{}
