package main

// filterMutants are the faults of the environment, keys and what is printed.
var filterMutants = []mutant{}
