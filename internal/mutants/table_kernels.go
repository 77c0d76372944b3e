package main

// kernelsMutants are the faults of the operations and their CPU loops.
var kernelsMutants = []mutant{}
