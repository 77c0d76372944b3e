package python

import "strings"

// IsKeyword reports whether s is a keyword that can never be a name. Soft keywords (match, case, type, _) can be names.
func IsKeyword(s string) bool { return keywords[s] }

// IsBuiltin reports whether s is a name that every module of Python 3.11 has: a function, type, exception or constant
// of the builtins, or an attribute such as __name__.
func IsBuiltin(s string) bool { return builtins[s] }

// IsMethod reports whether s is an attribute or method of Python 3.11's built-in types (str, list, dict, set, numbers,
// files, exceptions and so on), or a special method such as __init__.
func IsMethod(s string) bool { return methods[s] }

// Identifiers returns the names in src, without keywords: of variables, functions, classes, parameters, keyword
// arguments, attributes and modules, also in f-strings. Of a dotted name it also returns every prefix (a, a.b and
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

var methods = words(`
	__abs__ __abstractmethods__ __add__ __aenter__ __aexit__ __aiter__ __alloc__ __and__ __anext__ __annotations__
	__await__ __base__ __bases__ __basicsize__ __bool__ __bytes__ __call__ __cause__ __ceil__ __class__ __class_getitem__
	__complex__ __contains__ __context__ __copy__ __deepcopy__ __del__ __delattr__ __delete__ __delitem__ __dict__
	__dictoffset__ __dir__ __divmod__ __doc__ __enter__ __eq__ __exit__ __flags__ __float__ __floor__ __floordiv__
	__format__ __fspath__ __ge__ __get__ __getattr__ __getattribute__ __getformat__ __getitem__ __getnewargs__
	__getstate__ __gt__ __hash__ __iadd__ __iand__ __ifloordiv__ __imod__ __imul__ __index__ __init__ __init_subclass__
	__instancecheck__ __int__ __invert__ __ior__ __ipow__ __isub__ __itemsize__ __iter__ __itruediv__ __ixor__ __le__
	__len__ __lshift__ __lt__ __matmul__ __missing__ __mod__ __module__ __mro__ __mul__ __name__ __ne__ __neg__ __new__
	__next__ __or__ __pos__ __post_init__ __pow__ __prepare__ __qualname__ __radd__ __rand__ __rdivmod__ __reduce__
	__reduce_ex__ __repr__ __reversed__ __rfloordiv__ __rlshift__ __rmod__ __rmul__ __ror__ __round__ __rpow__ __rrshift__
	__rshift__ __rsub__ __rtruediv__ __rxor__ __set__ __set_name__ __setattr__ __setitem__ __setstate__ __sizeof__
	__slots__ __str__ __sub__ __subclasscheck__ __subclasses__ __subclasshook__ __suppress_context__ __text_signature__
	__traceback__ __truediv__ __trunc__ __weakrefoffset__ __wrapped__ __xor__ add add_note append args as_integer_ratio
	bit_count bit_length buffer capitalize casefold center clear close closed conjugate copy count decode denominator
	detach difference difference_update discard encode encoding endswith errors expandtabs extend fileno find flush format
	format_map from_bytes fromhex fromkeys get gi_code gi_frame gi_running gi_suspended gi_yieldfrom hex imag index
	indices insert intersection intersection_update is_integer isalnum isalpha isascii isatty isdecimal isdigit isdisjoint
	isidentifier islower isnumeric isprintable isspace issubset issuperset istitle isupper items join keys line_buffering
	ljust lower lstrip maketrans mro name newlines numerator partition pop popitem read readable readline readlines real
	reconfigure remove removeprefix removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip seek seekable
	send setdefault sort split splitlines start startswith step stop strip swapcase symmetric_difference
	symmetric_difference_update tell throw title to_bytes translate truncate union update upper values with_traceback
	writable write write_through writelines zfill
`)
