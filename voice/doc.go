// Package voice holds what makes an answer sound like somebody: styles as data, the tone score, and a composer that
// writes the prose around a piece of code without any model.
//
// A [Style] is read from a style file by [Load], [Builtin] or [Parse]. It tells a teacher model how to write
// (System, Devices, Examples), scores what was written ([Style.Tone], [Style.Accepts], [Style.BannedIn]), and can
// write by itself ([Style.Compose]). [Opener], [FirstFive], [Sentences] and [Shingles] are the measures by which
// repetition over a data set is counted; [Ask] and [Keyword] find in a question what the composer can refer to.
//
// The package imports nothing but the standard library.
//
// # Style files
//
// A style file is UTF-8 text, made to be written by somebody who does not program. Lines that begin with # are
// comments, empty lines mean nothing. It begins with settings:
//
//	name: pirate            letters, digits and hyphens
//	about: salty and loud   one line for people
//	score: 3                the least tone score of an answer in this voice
//	cues: 2                 the least number of distinct cues
//	density: 2 40           cues per 100 words, least and most
//	words: 25 220           words of prose, least and most
//
// All but the name have a default. Then come sections, each under a header in square brackets:
//
//	[system]     what a teacher model is told about the voice; how code is left out and where the answer goes is added
//	[devices]    one rhetorical device a line, "name: instruction"
//	[example]    a few-shot example; as many such sections as there are examples
//	[lexicon]    one cue a line, "weight words"; matched as whole words in any case, in prose only
//	[banned]     one word or phrase a line that no answer may contain
//	[skeletons]  one order of blocks a line
//	[opener]     the first block of every answer
//	[anything]   another block, if a skeleton names it
//
// An example has four parts. What does not fit on the line follows below it, indented by four spaces:
//
//	[example]
//	device: the parrot
//	question: Print the numbers from 1 to 10.
//	code:
//	    for i in range(1, 11):
//	        print(i)
//	rewrite:
//	    The parrot counts along, matey, and he wants a biscuit for it, says the captain.
//
//	    [[CODE_1]]
//
// # The phrase bank
//
// A skeleton is a line of block names. "code" stands for the placeholders of the code, a slash for a new paragraph,
// and the first block is always opener:
//
//	[skeletons]
//	opener question / lead / code / remark closer
//	opener lead / code / closer
//
// Each block that is named has a section with one phrase a line, a phrase being one or more whole sentences. The
// composer picks one phrase for each block, never the same twice in an answer, and avoids to repeat a striking word.
// The first two words of an opener are its key (see [Opener]); several openers may share one. If there is a block
// called bridge, its phrases stand between several pieces of code; if there is one called comment, its phrases can
// become comments on single lines of the code, and its conditions and slots are about that line.
//
// A phrase may have slots; it is used only when all of them can be filled. A capital letter, as in {Ask}, capitalises
// the value. Names from the code are put in backticks:
//
//	{ask}        the request as a clause: write a function that reverses a list
//	{asking}     the same with its verb in -ing
//	{keyword}    the subject of the question: palindrome
//	{keywords}   its plural: palindromes
//	{function} {class} {module} {call} {name}
//	             a name from the code: defined, defined, imported, called, assigned
//	{lines}      a count from two on: eleven lines
//	{functions}  likewise: two functions
//
// A section can have a condition, and then its phrases are used only where it holds. It lists what the code must have,
// or with "not" must not have; a name with () must be called in it:
//
//	[remark if loop]
//	[remark if function not several]
//	[closer if input]
//	[remark if len()]
//
// The conditions are the [Feature] constants in lower case, that is loop, while, nested, comprehension, recursion,
// list, dict, set, string, format, sort, print, conditional, try, raise, lambda, function, class, method, return,
// import, slice, range, arithmetic, file, with, generator, decorator, docstring and comment, and further short (one to
// four lines), long (fifteen or more), several (functions), input (the question has input data) and question (it is
// put as one). A section name may occur again with another condition or with the same. Every block needs at least one
// phrase without slots and conditions; a few dozen keep answers from repeating each other.
//
// gen lets no first two words open more than 10 % of the rows that it makes, and no sentence stand in more than 3 %. So
// it takes at least 13 different openers, and in each block that every answer has at least 34 phrases, or it runs dry.
package voice
