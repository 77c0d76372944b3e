package main

// usersMutants are the faults of what users of train and chat see.
var usersMutants = []mutant{}
