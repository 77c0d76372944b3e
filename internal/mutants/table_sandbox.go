package main

// sandboxMutants are the faults of running the code of answers.
var sandboxMutants = []mutant{}
