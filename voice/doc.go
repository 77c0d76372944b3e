// Package voice implements voices, which are data: it reads style files, scores the tone of a text, and composes the
// prose around a piece of code without a model.
//
// A [Style] comes from a style file, by [Load], [Builtin] or [Parse]. It has what a teacher model is told (System,
// Devices, Examples), it scores a text ([Style.Tone], [Style.Accepts], [Style.BannedIn]), and it composes prose
// ([Style.Compose]). A [Text] has the measures by which repetition in a dataset is counted: [Text.Opener],
// [Text.FirstFive], [Text.Sentences] and [Text.Shingles]. [Style.Order] tells sentences from shuffled words. [Ask] and
// [Keyword] find in a question what the composer can refer to. [Pieces] splits Markdown at its fences.
//
// The package imports only the standard library.
//
// # Style files
//
// A style file is UTF-8 text that people who do not program can write. Lines that start with # are comments, and
// empty lines are ignored. The file starts with settings:
//
//	name: pirate            letters, digits and hyphens
//	about: salty and loud   one line for people
//	score: 3                minimum tone score of an answer in this voice
//	cues: 2                 minimum number of distinct cues
//	density: 2 40           cues per 100 words, minimum and maximum
//	words: 25 220           words of prose, minimum and maximum
//	repeat: 3 8             percentages of rows that may share a sentence, and eight words in a row
//
// All settings but the name have defaults. Then come sections, each with a header in square brackets:
//
//	[system]     what a teacher model is told about the voice; gen adds how to stand in for code and where to answer
//	[devices]    one rhetorical device per line, "name: instruction"
//	[example]    a few-shot example; the section may occur any number of times
//	[lexicon]    one cue per line, "weight words"; cues match whole words in any case, only in prose
//	[banned]     one word or phrase per line that no answer may contain
//	[skeletons]  one order of blocks per line
//	[opener]     the first block of every answer
//	[anything]   another block, if a skeleton names it
//
// An example has four parts. Text that does not fit on a part's line follows it, indented by four spaces:
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
// A skeleton is a line of block names. The name "code" is the place of the code, a slash starts a new paragraph, and
// the first block is always opener:
//
//	[skeletons]
//	opener question / lead / code / remark closer
//	opener lead / code / closer
//	greeting / answer / afterwards
//
// A skeleton with "answer" is for answers in words, which stay as they are: it has no opener and no code, and its
// blocks should speak of neither.
//
// Each named block has a section with one phrase per line; a phrase is one or more whole sentences. The composer
// chooses one phrase for each block, never the same phrase twice in an answer, and avoids repeating a striking word.
// The first two words of an opener are its key (see [Text.Opener]); several openers may share one. If there is a block
// called bridge, its phrases come between several pieces of code. If there is a block called comment, its phrases can
// become comments on single lines of the code, and its conditions and slots are about that line.
//
// A phrase may have slots; the composer uses it only if all of them can be filled. A capital letter, as in {Ask},
// capitalizes the value. Names from the code are put in backticks:
//
//	{ask}        the request as a clause: write a function that reverses a list
//	{asking}     the same with its verb in -ing
//	{keyword}    the subject of the question: palindrome
//	{keywords}   its plural: palindromes
//	{function} {class} {module} {call} {name}
//	             a name from the code: defined, defined, imported, called, assigned; no property, nor print
//	{lines}      a number from two on: eleven lines
//	{functions}  likewise: two functions
//	{number}     a number that the question states
//	{word}       a word that question and code have as text, in quotation marks: "walrus"
//
// Other slots say what a statement of the code does, in the code's own words and in backticks. Slots on one line are
// filled together, and only if the statement is the only one of its kind, so that a sentence may say "the loop":
//
//	{returner} {returned}  a function, and the expression that it returns
//	{taker} {taken}        a function, and its parameters, none of which has a default
//	{optional} {default}   a parameter, and its default
//	{target} {value}       a variable, and the expression that it is set to
//	{pair} {shared}        two variables, and the expression that is unpacked into them
//	{starter} {start}      a variable that is set again later, and the number that it is first set to
//	{constant} {figure}    a variable that is set once, and the number that it is set to
//	{step}                 an augmented assignment in a loop: total += price
//	{each} {over}          the variable of a for statement, and what it iterates over
//	{awaited}              the condition of a while statement
//	{tested}               the condition of an if statement
//	{printed}              the argument of a print()
//	{said}                 a string that a print() shows; there may be others
//	{appended} {appendee}  what is appended, and to what
//	{raised} {caught}      exceptions, each filled alone
//	{derived} {base}       a class, and its base
//	{keeper} {kept}        a class, and an attribute that its __init__ sets, or a field of a dataclass
//
// A section can have a condition; the composer uses its phrases only if the condition holds. It lists what the code
// must have, or with "not" must not have; a name with () must be called in the code:
//
//	[remark if loop]
//	[remark if function not several]
//	[closer if input]
//	[remark if len()]
//
// The conditions are the [Feature] constants in lower case: loop, while, nested, comprehension, recursion, list,
// dict, set, string, format, sort, print, conditional, try, raise, lambda, function, class, method, return, import,
// slice, range, arithmetic, file, with, generator, decorator, docstring and comment; and short (one to four lines),
// long (fifteen or more), several (functions), input (the question has input data) and question (it has a question
// mark). A section may occur again, with the same condition or another. The phrases of [remark otherwise] are for
// answers that no other phrase of the block fits. A phrase fits only if the answer has not already named, in
// backticks, what the phrase names. Every block needs at least one phrase without slots and conditions; a few dozen
// keep answers from repeating each other.
//
// gen does not let the same first two words open more than 10% of its rows, or a sentence occur in more rows than the
// setting repeat allows. So a style that repeats 3% needs at least 13 different openers, and at least 34 phrases in
// each block that every answer has. A style that repeats 1% needs a hundred. With fewer, gen gives up rows.
package voice
