package main

// modelsMutants are the faults of the model, the optimizer and inference.
var modelsMutants = []mutant{}
