package main

// serverMutants are the faults of the teacher's servers and the journal.
var serverMutants = []mutant{}
