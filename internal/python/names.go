package python

import "strings"

// IsKeyword reports whether s is a keyword that can never be a name. Soft keywords (match, case, type, _) can be names.
func IsKeyword(s string) bool { return keywords[s] }

// IsBuiltin reports whether s is a name that every module of Python 3.11 has: a function, type, exception or constant
// of the builtins, or an attribute such as __name__.
func IsBuiltin(s string) bool { return builtins[s] }

// Identifiers returns the names in src, without keywords: of variables, functions, classes, parameters, keyword
// arguments, attributes and modules, also in f-strings. For a dotted name it also returns every prefix (a, a.b and
// a.b.c); a.b.c is a dotted name, a().b is not. If src does not split into tokens, Identifiers returns the names before
// the error.
func Identifiers(src string) map[string]bool {
	tokens, _ := Tokenize(src)
	tokens = significant(tokens)
	found := make(map[string]bool)
	chain := "" // the dotted name that a following dot would extend
	for i := range tokens {
		t := &tokens[i]
		switch {
		case t.isIdentifier():
			found[t.Text] = true
			if i == 0 || !tokens[i-1].is(".") {
				chain = t.Text
			} else if chain != "" {
				chain += "." + t.Text
			}
			if len(chain) > longestDotted {
				chain = ""
			}
			if chain != "" {
				found[chain] = true
			}
		case !t.is(".") || i == 0 || !tokens[i-1].isIdentifier():
			chain = ""
		}
	}
	return found
}

// longestDotted limits the length of a dotted name in bytes, because the prefixes of a longer one would take quadratic
// space.
const longestDotted = 200

// words returns the set of the words in s.
func words(s string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

var keywords = words(`
	False None True and as assert async await break class continue def del elif else except finally for from global if
	import in is lambda nonlocal not or pass raise return try while with yield
`)

var builtins = words(`
	ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
	BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
	ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception ExceptionGroup
	FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
	IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
	ModuleNotFoundError NameError NotADirectoryError NotImplemented NotImplementedError OSError OverflowError
	PendingDeprecationWarning PermissionError ProcessLookupError RecursionError ReferenceError ResourceWarning
	RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError
	TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError
	UnicodeWarning UserWarning ValueError Warning ZeroDivisionError __import__ __name__ abs aiter all anext any ascii bin
	bool breakpoint bytearray bytes callable chr classmethod compile complex delattr dict dir divmod enumerate eval exec
	filter float format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter len list
	locals map max memoryview min next object oct open ord pow print property range repr reversed round set setattr slice
	sorted staticmethod str sum super tuple type vars zip __file__ __main__ exit quit __doc__ __all__
`)
