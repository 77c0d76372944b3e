package data

import "slices"

// known are held-out questions that the embedded model, and three that were tuned from it on the committed dataset
// (seeds 0 to 2), answered right by greedy decoding, the latter in the voice.
var known = []string{
	"fizzbuzz", "how to reverse a string in python", "write a func that checks palindrome",
	"how to remove duplicates from a list", "give me the code to write fibonacci series", "sort a dictionary by value",
	"how to check if a file exists", "how to merge two dictionaries", "gcd of 12 and 18",
	"print multiplcation table of 7", "tower of hanoi python", "how to find squre root of a number in python",
	"write a bank account class with deposit and withdraw", "how do i read a file line by line",
	"find the largest number in [12, 45, 7, 30]", "random password generator", "how to use try except",
	"how many days between two dates", "write a program to add two numbers", "shuffle a list in python",
	"how do i put a variable inside a string", "linear search program", "explain lambda", "what is a list",
	"difference between = and ==", "what does self mean", "difference between is and ==", "what is a decorator",
	"difference between remove, pop and del", "im new to python where do i start",
}

// Examples returns held-out questions that the embedded model and models tuned from it know. Each is one short line.
func Examples() ([]Question, error) {
	all, err := Questions()
	return slices.DeleteFunc(all, func(q Question) bool { return !slices.Contains(known, q.Instruction) }), err
}
