#!/usr/bin/env python3
"""Records what Jinja2 writes for every combination of the options of each filter, function and method, and writes
options.jsonl. Needs jinja2 3.1.6: python3 make_options.py

Each line: expressions with § where the options go, alternatives for each option ("" for its default), and the texts of
all combinations, for each expression in turn, the last option changing fastest; null for an error, false if it
names something undefined, and true where this interpreter differs from Jinja2 in what no template is known to use,
such as the address of an object. A true stays true.
"""
import itertools, json, os, re

import jinja2

from make import env

LETTERS, PAIRS = "['b','A','a','B','c','']", "[('b',2),('A',1),('a',1),('B',3),('a',2)]"
UNEVEN = "[('b',2),('A',),('a',1),('Z',),('z',2)]"
CASE, ATTRIBUTE = ["", "case_sensitive=true", "case_sensitive=false"], ["", "attribute=0", "attribute=1", "attribute='1,0'"]
FLAG = lambda name: ["", name + "=true", name + "=false"]
BOUNDS = [["'a'", "'ab'", "''"], ["", "1", "-2", "9"], ["", "3", "-1", "0"]]
UNARY = ["boolean", "callable", "defined", "escaped", "even", "false", "float", "integer", "iterable", "lower", "mapping",
         "none", "number", "odd", "sequence", "string", "true", "undefined", "upper"]
BINARY = ["eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lt", "ne", "sameas", "==", "!=", "<", "<=", ">", ">=", "divisibleby"]
ROWS = [
    (["{{ %s is § }}" % v for v in ("1", "0", "2.0", "'a'", "'A1'", "''", "'upper'", "'odd'", "none", "true", "false", "[]", "{}", "(1,)",
                                    "range(2)", "nope", "'a'|escape", "dict")], [UNARY]),
    (["{{ %s is § }}" % v for v in ("'upper'", "'odd'", "'x'", "none")], [["filter", "test"]]),
    (["{{ [%s]|select('§', %s)|list }}" % (v, w) for v, w in (("1, 2, 3", "2"), ("1, 1.0, 2", "1.0"), ("'a', 'b', 'A'", "'a'"),
                                                         ("1, 'a', [2]", "[1, 'a']"), ("true, false, none", "true"))], [BINARY]),
    (["{{ %s|%s(§) }}" % (v, f) for v in ("'<b>'", "'a'", "''", "nope", "[1, 2]") for f in ("d", "count", "length", "e", "escape", "upper",
      "lower", "capitalize", "title", "string", "list", "first", "last", "reverse|list", "abs", "wordcount", "urlencode", "items|list",
      "forceescape", "safe|e", "striptags", "trim", "tojson", "int", "float", "sum", "min", "max")], [[""]]),
    ([f"{{{{ {v}|sort(§) }}}}" for v in (LETTERS, PAIRS)], [FLAG("reverse"), CASE, ATTRIBUTE]),
    ([f"{{{{ {v}|sort(§) }}}}" for v in (LETTERS, PAIRS)], [["true", "false"], ["", "true"]]),
    ([f"{{{{ {v}|unique(§)|list }}}}" for v in (LETTERS, PAIRS)], [CASE, ATTRIBUTE[:3]]),
    ([f"{{{{ {v}|{f}(§) }}}}" for f in ("min", "max") for v in (LETTERS, PAIRS)], [CASE, ATTRIBUTE[:3]]),
    ([f"{{{{ {v}|sum(§) }}}}" for v in ("[1,2.5]", PAIRS, "[]")], [ATTRIBUTE[:3], ["", "start=10", "start=0.5"]]),
    (["{{ {'b':1,'A':3,'a':2,'B':'x'}|dictsort(§) }}", "{{ {'b':'y','A':'X','a':'x','B':'Z'}|dictsort(§) }}"],
     [CASE, ["", "by='key'", "by='value'", "by='x'"], FLAG("reverse")]),
    ([f"{{{{ {v}|groupby(§) }}}}" for v in (PAIRS, UNEVEN)],
     [["0", "1", "attribute='0'"], ["", "default=1", "default='Z'"], CASE]),
    (["{{ 'a\\n\\n b\\n'|indent(§) }}|", "{{ ''|indent(§) }}|"],
     [["", "width=2", "width='> '", "width=0"], FLAG("first"), FLAG("blank")]),
    (["{{ %s|int(§) }}" % v for v in ("'0x1A'", "'12'", "'z'", "'1.9'", "'0b11'", "none", "2.7")],
     [["", "default=7"], ["", "base=16", "base=2", "base=0", "base=8"]]),
    (["{{ %s|float(§) }}" % v for v in ("'1.5'", "'x'", "none", "3")], [["", "default=7", "'d'"]]),
    (["{{ %s|round(§) }}" % v for v in ("2.55", "-2.5", "1234", "0.5")],
     [["", "precision=1", "precision=-2"], ["", "method='ceil'", "method='floor'", "method='common'", "method='up'"]]),
    ([f"{{{{ range({n})|{f}(§)|list }}}}" for n in (5, 6) for f in ("batch", "slice")],
     [["2", "3", "7"], ["", "fill_with='x'", "fill_with=none"]]),
    (["{{ 'one two three four'|truncate(§) }}", "{{ 'onetwothreefour'|truncate(§) }}"],
     [["", "length=10", "length=12", "length=13", "length=2"], FLAG("killwords"), ["", "end='!'", "end=''"], ["", "leeway=0", "leeway=3"]]),
    (["{{ 'a well-known antidisestablish-mentarianism\\nand a'|wordwrap(§) }}"],
     [["", "width=8"], FLAG("break_long_words"), ["", "wrapstring='/'"], FLAG("break_on_hyphens")]),
    (["{{ {'a':1,'b':none,'c':'<'}|xmlattr(§) }}", "{{ {}|xmlattr(§) }}|"], [FLAG("autospace")]),
    (["{{ %s|filesizeformat(§) }}" % v for v in ("1", "999", "1000", "1024", "1500000")], [FLAG("binary")]),
    (["{{ {'b':[1,'é'],'a':{}}|tojson(§) }}"],
     [FLAG("ensure_ascii"), ["", "indent=1", "indent=0"], ["", "separators=(',',':')"], FLAG("sort_keys")]),
    (["{{ %s|default(§) }}|" % v for v in ("nope", "''", "0", "none", "'x'")], [["", "'d'", "default_value='e'"], FLAG("boolean")]),
    ([f"{{{{ {v}|join(§) }}}}" for v in (LETTERS, PAIRS)], [["", "'-'", "d='+'", "none"], ATTRIBUTE[:3]]),
    ([f"{{{{ {v}|map(§)|list }}}}" for v in (PAIRS, UNEVEN)], [["attribute=1", "attribute='0'"], ["", "default='d'", "default=none"]]),
    (["{{ ['1','x','0x1f']|map(§)|list }}"], [["'int'"], ["", "default=7"], ["", "base=16"]]),
    (["{{ [0,1,2,none,'a','']|%s(§)|list }}" % f for f in ("select", "reject")],
     [["", "'odd'", "'none'", "'equalto', 1", "'in', [1,'a']", "'string'"]]),
    (["{{ [{'a':0},{'a':1},{'a':none},{}]|%s(§)|list }}" % f for f in ("selectattr", "rejectattr")],
     [["'a'", "'a', 'defined'", "'a', 'none'", "'a', 'equalto', 1", ""]]),
    (["{{ 'aXbXXc'|replace(§) }}", "{{ 'aXbXXc'.replace(§) }}"], [["'X', '-'", "'', '.'"], ["", "0", "1", "2", "-1"]]),
    (["{{ ' x-x '|trim(§) }}|"], [["", "' x'", "chars='-'", "none"]]),
    (["{{ 'abc'|center(§) }}|"], [["", "8", "width=7", "2"]]),
    (["{{ 'abab'.%s(§) }}" % f for f in ("find", "rfind", "count", "startswith", "endswith", "index", "rindex")], BOUNDS),
    (["{{ ' a  b c '.%s(§) }}" % f for f in ("split", "rsplit")], [["", "none", "' '", "'b'"], ["", "1", "0", "-1"]]),
    (["{{ ' a  b c '.%s(§) }}" % f for f in ("split", "rsplit")], [["", "sep=' '"], ["", "maxsplit=1"]]),
    (["{{ 'xx-x'.%s(§) }}|" % f for f in ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix")], [["", "'x'", "'-x'", "none"]]),
    (["{{ 'a\\nb\\n\\n'.splitlines(§) }}"], [["", "true", "keepends=true", "false"]]),
    (["{{ 'abc'.%s(§) }}|" % f for f in ("center", "ljust", "rjust")], [["8", "7", "2"], ["", "'*'", "'**'"]]),
    (["{{ '-12'.zfill(§) }}"], [["", "4", "tabsize=2", "0"]]),
    (["{{ range(§)|list }}"], [["5", "2", "-3"], ["", "7", "0"], ["", "2", "-1"]]),
    (["{% set j = joiner(§) %}{{ j() }}a{{ j() }}b"], [["", "'; '", "sep='/'"]]),
    (["{{ {'a': 1}.get(§) }}"], [["'a'", "'b'"], ["", "2"]]),
]

NUMBERS = ["0", "1", "-1", "2", "3", "-7", "0.0", "-0.0", "0.5", "2.5", "-2.5", "1e300", "-1e300*1e300", "(1e300*1e300-1e300*1e300)", "10**30"]
VALUES = ["'a'", "'ba'", "''", "[]", "[1]", "[1, 2]", "[2]", "(1,)", "()", "{}", "{'a': 1}", "{'a': 2}", "{1: 1}", "none", "true", "1", "nope", "range(2)",
          "range(0, 3, 2)", "range(0)", "'<'|e", "'%s'", "{'a': 1}.keys()", "[[1, 0], [1]]", "namespace(a=1)"]
TEXTS = ["''", "'a'", "'ab ab'", "' x\\ty \\n'", "'é😀ß'", "'A-b_C9'", "'\\r\\n\\v\\x1c\\x85\\u2028z'", "'aaaa'", "('<&' ~ '>')|e"]
ALL = ["tojson", "length", "trim", "string", "e", "forceescape|e", "list", "join('-')", "first", "last", "sort", "unique|list", "min", "max", "sum", "dictsort",
       "groupby(0)", "map('upper')|list", "select|list", "reject('odd')|list", "replace('a', 'b')", "indent", "int", "float", "round", "abs", "batch(2)|list",
       "slice(2)|list", "items|list", "reverse|list", "center(5)", "wordcount", "format('a')", "attr('real')", "attr('keys') is defined", "truncate(1, end='')",
       "wordwrap(3)", "xmlattr", "filesizeformat", "urlencode", "striptags", "title", "capitalize", "upper", "lower", "default('d', true)", "d"]
METHODS = ["strip()", "split()", "rsplit()", "splitlines()", "splitlines(true)", "partition('b')", "rpartition('b')", "title()", "capitalize()", "swapcase()", "casefold()",
           "upper()", "lower()", "isspace()", "isascii()", "isalnum()", "isalpha()", "istitle()", "zfill(6)", "center(6, '*')", "ljust(7)",
           "rjust(6)", "replace('a', '')", "replace('', '-', 2)", "removeprefix('a')", "removesuffix('b')", "count('a')", "count('aa')", "find('b')", "rfind('a')",
           "join([1])", "join('xyz')", "join(['', 'q'])", "encode", "startswith(('x', ''))", "endswith((1,))", "startswith(['a'])", "format(1)", "format_map({})", "format_map(1)", "lstrip('aé ')",
           "rstrip('b\\n')", "upper(1)", "nope()", "_a()", "split('')", "index('q')", "split('a', 1)", "rsplit('a', 1)", "zfill('a')", "center(6, 1)", "strip(1)"]
EACH = lambda values, text: "{% for v in [" + values + "] %}{{ " + text + " }}|{% endfor %}"
SPECS = ["".join(s) for s in itertools.product(["", "-", "+", " ", "0", "-0"], ["", "9"], ["", ".0", ".3"])] + ["#", "#9", "#09"]
FIELDS = ["".join(s) for s in itertools.product(["", "<", ">", "^", "=", "*^", "0=", "é<"], ["", "+", " ", "-"], ["", "0"], ["", "6"])]
KINDS = ["".join(s) for s in itertools.product(["", ","], ["", ".0", ".2", ".9"], ["", "d", "n", "x", "X", "o", "b", "e", "E", "f", "F", "g", "G", "%", "s", "q"])]
KINDS += ["#x", "#X", "#o", "#b", "#d", "09", "09d", "09x", "#09x", "#9X", "09f", "09.2e", "09%", "09s"]
LINES = lambda text: re.split("[¦\n]", text)
BLANKS = [f"a \n {o}{s} {w}{{}}{e} {c} \n b\n".replace("{}", "") for s in ("", "-", "+") for e in ("", "-", "+") for o, w, c in
          (("{{", "1", "}}"), ("{%", "set x = 1", "%}"), ("{#", "c", "#}"), ("{%", "raw", "%} x {% endraw %}"), ("x {%", "set x = 1", "%}"), ("\t{%", "if 1", "%}\ny{% endif %}"))]
BLANKS = [b.replace(e + " %}", e + "%}").replace(e + " }}", e + "}}").replace(e + " #}", e + "#}") for b in BLANKS for e in ("-", "+")]
RAW = [f" a\n {{%{a} raw {b}%}} \n {{{{ x }}}} \n {{%{c} endraw {d}%}} \n b" for a in ("", "-", "+") for b in ("", "-") for c in ("", "-", "+") for d in ("", "-", "+")]
ROWS += [
    ([f"{{{{ ({v}) § }}}}" for v in NUMBERS], [[f"{op} {w}" for op in ("+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", ">", ">=")
                                                 for w in NUMBERS if op != "**" or w != "10**30"]]),
    ([f"{{{{ ({v}) § }}}}" for v in VALUES], [[f"{op} {w}" for op in ("+", "*", "==", "!=", "<", "<=", ">=", "in", "not in", "%", "~", "and") for w in VALUES]]),
    ([f"{{{{ {v}|§ }}}}" for v in VALUES + TEXTS + ["-7", "2.5", "-0.0", "[3, 1, 1, 2]|map('string')", "namespace(a=1)", "[(2, 1), (1, 2)]", "10**30", "1e300*1e300"]], [ALL]),
    ([f"{{{{ {t}.§ }}}}" for t in TEXTS], [METHODS]),
    ([f"{{{{ ({v}).§ }}}}" for v in ("[1, 2, 1]", "(1, 2, 1)", "{'a': 1}", "range(3)", "3", "2.5", "true", "none", "'s'")],
     [["count(1)", "index(2)", "index(9)", "index()", "copy()", "append(1)", "keys()", "values()", "items()", "get('a')", "get('b', 4)", "get('a', 1, 2)", "keys(1)", "pop('a')", "update", "real", "imag",
       "a", "b", "0", "9", "__class__", "_x", "index", "copy(1)"]]),
    ([f"{{% set v = {v} %}}{{{{ v[§]|string }}}}" for v in ("'héllo'", "[0, 1, 2, 3]", "(0, 1, 2, 3)",  "{1: 'a', 'x': 'b', none: 'c', 1.5: 'd', (1, 2): 'e'}", "none", "nope", "7", "(1, 2)|map('abs')")] + [f"{{% set v = {v} %}}{{{{ v[§]|list }}}}" for v in ("range(4)", "range(9, 1, -2)")],
     [["0", "3", "4", "5", "-1", "-4", "-5", "-6", "true", "1.0", "1.5", "none", "'x'", "'1'", "'real'", "10**30", "-10**30", "[1]", "(1, 2)", "1, 2", "{}", "(1, [2])", "nope", "range(2)", "1.0:", "nope:", "'a':", "::0", "10**30:",
       ":-10**30", "1:2, 3"] + [":".join(s) for s in itertools.product(["", "1", "-2", "9", "-9"], ["", "2", "-1", "9", "-9"], ["", "2", "-1", "-2"])]]),
    ([EACH("5, -5, 0, 1234567", "'%§" + k + "' % v") for k in "diuxXocrsab"] + [EACH("5, 0.0, -0.0, -1234.5678, 1e-5, 1e17, 0.5", "'%§" + k + "' % v") for k in "deEfFgGxs"] +
     [EACH("'é', 'ab', none, [1], (1, 2), true, nope", "'%§" + k + "' % (v,)") for k in "srac"], [SPECS]),
    (["{{ '" + f + "' % § }}" for f in ("%s", "%d", "%c", "%s %s", "%%", "x", "%(a)s", "%(a)s %(b)d", "%(a)s %s", "%", "%5", "%*d", "%-*d", "%.*f", "%ld", "%hd", "%(a", "%y", "%c%c")],
     [["1", "'a'", "'ab'", "''", "(1,)", "(1, 2)", "(1, 2, 3)", "(-6, 2)", "('6', 2)", "[1]", "[1, 2]", "{'a': 1}", "{'a': 1, 'b': 2}", "{}", "none", "nope", "2.5", "(2, 2.5)", "65.5", "true", "-1", "'é'", "range(2)"]]),
    ([EACH("5, -5, 0, true, 2.5, -0.0, 1e20", "'{:§}'.format(v)")] + [EACH(v, "'{:§}'.format(v)") for v in ("'é', 'abcdefgh'", "none", "nope", "[1]", "('a'|e)")], [FIELDS]),
    ([EACH(v, "'{:§}'.format(v)") for v in ("5, -1234567, 0", "2.5, -1234567.891, 0.0, 1e-7, 1e22", "'abc'", "true")], [KINDS]),
    (["{{ '§'.format(1, 'b', [3, {'k': 4}], n={'a': [5]}, o=none) }}"],
     [LINES("""{}{}¦{0}{1}{0}¦{}{1}¦{2}¦{2[0]}¦{2[1][k]}¦{2[1].k}¦{n[a][0]}¦{n.a}¦{n.b}¦{n[b]}¦{2[9]}¦{2[-1]}¦{9}¦{m}¦{{}}¦{{{0}}}¦}¦{¦{0¦0}¦{0!r:>5}¦{1!r:>5}¦{1!s:>5}
{1!a:>5}¦{1!x}¦{0!}¦{0:}¦{0:5}¦{1:5}¦{1:.0}¦{1:d}¦{0:s}¦{o}¦{o:5}¦{o!s:5}¦{n.a[0]:03d}¦{0.real}¦{0.nope}¦{0.__class__}¦x{0}y{1}z¦{ 0}¦{0:{1}}¦{}{}{}{}
{0:.1001f}""")]),
    (["{{ § }}"], [LINES(r"""'\0' ~ '\7' ~ '\12' ~ '\1234' ~ '\78' ~ '\8' ~ '\400' ~ '\777'¦'\a\b\f\n\r\t\v\\\'\"\q\z\9'¦'\x41\u0041\U00000041'¦'\x4'¦'\x'¦'\u004'¦'\U00110000'¦'abc¦"abc
"a'b" 'c"d'¦'a' ~ "b" 'c'¦1_000¦1__0¦1_¦0b11¦0B1_1¦0o17¦0xfF¦0x_f¦0b2¦00¦007¦0_0¦1.5¦1.¦.5¦1e5¦1E-5¦1.5e+3¦1_0.0_1e1_0¦1e¦12.real¦1.5.real¦1.0.real¦[1,2,]¦[,]
{'a':1,}¦{'a'}¦{'a':}¦{'a' 1}¦(1,)¦(1,2,)¦()¦(,)¦1,¦1, 2¦,¦[1 2]¦[1¦(1¦{1:2¦]¦)¦(]¦x.1¦[5, 6].1¦[[5]].0.0¦[5].1.5¦[5].'a'¦[5].¦[5][]¦[5][0¦[5][0,1]
{(0, 1): 7}[0, 1]¦{(0, 1): 7}[0, 1,]¦[5, 6][0:1,]¦1 if true¦1 if false¦1 if false else 2¦1 if false else 2 if false else 3¦(1 if false) is defined¦not not 1
not 1 == 2¦not 1 in [1]¦1 not in [1]¦1 not 2¦1 < 2 < 3¦1 < 2 > 3¦3 > 2 >= 2 != 1¦1 == 1 == 1¦1 in [1] in [[1]]¦- - 1¦-1 ** 2¦2 ** -1¦2 ** 3 ** 2¦-2|abs
(-2)|abs¦-'a'¦+'a'¦+true¦-true¦+nope¦-nope¦- 2.5¦+2¦1 + 2 * 3 - 4¦1 ~ 2 + 3¦1 + 2 ~ 3¦7 // 2 * 2¦7 % 4 * 2¦1 ~ 'a'|upper ~ none¦'a' is string¦'a' is not string
1 is not odd¦1 is odd and true¦1 is odd or false¦1 is odd if true else 3¦1 is divisibleby 2¦4 is divisibleby(2)¦4 is divisibleby 2 and true¦1 is in [1]
1 is in (1, 2)¦1 is eq 1¦1 is eq 1.0¦1 is eq 2.0¦'a' is eq 'a'¦{} is eq {}¦1 is odd is even¦1 is eq is¦1 is nosuch¦'a'|nosuch¦'a'|upper.x¦'a'|upper|lower
'a'|replace('a','b')¦'a'|replace('a','b',)¦'a'|¦'a'|1¦'a' is¦'a' is 1¦'a'|default(default_value='b', default_value='c')¦range(1, *[3])¦range(*[1, 3], **{})
range(**{'a': 1})¦range(**1)¦dict(**{1: 2})¦dict(a=1, **{'b': 2})¦dict(a=1, b=2)¦dict(a=1, 2)¦dict(**{}, a)¦dict([('a', 1)], b=2)¦dict({'a': 1}, b=2)¦dict([1])
dict([(1, 2, 3)])¦dict(1)¦dict({}, {})¦dict([], [])¦dict(a=1)¦'x'()¦none()¦nope()¦(1)(2)¦joiner(1)()¦joiner()() ~ '|'¦joiner(1, 2)¦cycler()¦cycler(1)()
cycler(1, 2).current¦cycler(1, 2).next()¦namespace(1)¦namespace(a=1)¦namespace({'a': 2}, b=3)¦namespace(a=1).a¦namespace(a=1).b¦namespace(a=1)['a']¦range()
range(1, 2, 3, 4)¦range(1, 5, 0)¦range(5, 1, -3)|list¦range('a')¦range(1.5)¦range(0, 9, 4)|length¦range(0, 8, 4)|length¦range(9, 0, -4)|length
range(100000)|length¦range(100001)¦range(3) == range(0, 3, 1)¦range(0) == range(5, 5)¦range(0, 1, 5) == range(0, 1)¦range(0, 3, 2) == range(0, 4, 2)
range(0, 3, 2) == range(0, 4, 3)¦range(1, 3) == range(2, 4)¦{1: 'a', 1.0: 'b', true: 'c'}¦{1: 'a'}[1.0]¦{10**22: 'a'}[1e22]¦{1.5: 'a'}[1.5]¦{none: 1}[none]
{(1, 'a'): 2}[(1.0, 'a')]¦{('a', 'b'): 2}[('ab', '')]¦{'1': 'a'}[1]¦{[1]: 2}¦{{}: 2}¦{([1],): 2}¦{('a', nope): 2}¦[1, [2]]|unique|list
[(1, (2,)), (1.0, (2,)), (1, 2)]|unique|list¦['a', 'A', 'b']|unique|list¦[none, nope, none]|unique|list|length¦1e300*1e300 in [1e300*1e300]¦{1e300*1e300: 1}
true == 1¦'1' == 1¦none == false¦[1, 2] == [1, 2.0]¦[1, 2] == (1, 2)¦{'a': 1} == {'a': 1.0}¦{'a': [1]} == {'a': [2]}¦{'a': 1} == {'b': 1}¦[1] < [1, 0]
[1, 2] < [1]¦(1, 'a') < (1, 'b')¦(1, 'a') < (2, 1)¦(1, 'a') < (1, 1)¦[nope] < [1]¦1 is sameas 1.0¦1 is sameas true¦none is sameas none¦'a' is sameas 'a'
[] is sameas []¦2**15000 % 7¦(-1)**999¦0**0¦0.0**0¦1**(10**30)¦(-2)**3¦(-8)**0.5¦0**-1¦1e300**2¦10**400 * 1.0¦10**400 > 1e308¦10**400 < 1e300*1e300
10**400 / 10**399¦9007199254740993 == 9007199254740992.0¦9007199254740993 > 9007199254740992.0¦1/3¦2/1¦1e16¦1e15¦123456789012345680.0¦1e-5¦0.0001¦1e22¦1.0¦-0.0
10**30¦'a' * 3¦3 * 'a'¦'a' * 0¦'a' * -1¦'a' * true¦[1] * 2¦(1,) * 2¦2 * [1]¦[] * 5¦{} * 2¦'a' * 1.5¦'%s' * 2 % (1, 2)¦'a' + 'b'|e¦('<'|e) + '<'¦'<' + ('<'|e)
('<'|e) ~ '<'¦('<'|e) * 2¦('<'|e)|e¦('<'|safe)|e¦('<'|e)|upper is escaped¦('a'|e)[0] is escaped¦('<'|e)¦[('<'|e)]¦[joiner]¦[range(2), range(1, 9, 3)]
[nope, none, true, 1.5, 'it\'s', '"', '\'"', '\n\t\r\\\x00\x7f\u200b\xa0é😀']¦{'a': {1: (2,)}, none: ()}¦[{}.keys(), {}.values(), {'a': 1}.items()]¦namespace
[[1, 2], [3]]|map('sum')|list¦[1, 2]|map('nosuch')|list¦[1, 2]|map()¦[1, 2]|map¦'ab'|map('upper')|join¦[{'a': {'b': 1}}, {'a': 2}]|map(attribute='a.b')|list
[[1, 2], [3, 4]]|map(attribute=1)|list¦[1, none, 0]|select('nosuch')|list¦[1]|selectattr¦[{'a': 1}, {'a': 0}]|rejectattr('a')|list¦[1, 2, 3]|first
[1, 2, 3]|map('string')|first¦[1, 2, 3]|map('string')|last¦[]|first is defined¦[]|last is defined¦[]|min is defined¦'b'|max¦(1, 2, 3)|sum
[[1], [2]]|sum(start=[])¦['a']|sum¦['a', 'b']|sum(start='')¦[1, 'a']|sort¦[1, nope]|sort¦['b', none]|sort¦[(1, 'b'), (1, 'a')]|sort¦'bca'|sort
{'b': 1, 'a': 2}|sort¦[{'a': 2}, {'a': 1}]|sort(attribute='a')¦[{'a': 2, 'b': 1}, {'a': 1, 'b': 1}, {'a': 1, 'b': 0}]|sort(attribute='b,a')
[{'a': 2}, {}]|sort(attribute='a')¦['a', 'B']|sort(true, true)¦[1]|sort(1, 2, 3, 4)¦[1]|sort(nosuch=1)¦[1]|sort(true, reverse=true)
[{'a': 'x'}, {'a': 'X'}, {'a': 'y'}]|groupby('a')¦([{'a': 'x'}]|groupby('a'))[0].grouper¦([{'a': 'x'}]|groupby('a'))[0].list¦([{'a': 'x'}]|groupby('a'))[0][1]
([{'a': 'x'}]|groupby('a'))[0][-3]¦([{'a': 'x'}]|groupby('a'))[0][:1]¦([{'a': 'x'}]|groupby('a'))[0]|length¦([{'a': 'x'}]|groupby('a'))[0].count('x')
([{'a': 'x'}]|groupby('a'))[0]|list¦([{'a': 'x'}]|groupby('a'))|tojson¦([{'a': 'x'}]|groupby('a'))[0] is sequence¦[1]|groupby¦1|abs|string is string
'ab'|attr('upper')¦'ab'|attr('_x') is defined¦{'a': 1}|attr('a') is defined¦nope|attr('a')¦'12'|int(base=3)¦'12'|int(base=37)¦'12'|int(base=1)
'zz'|int(base=36)¦'-0x1F'|int(base=16)¦'+0b1'|int(base=2)¦'0o17'|int(base=8)¦'0X1f'|int(base=16)¦'0b1'|int(base=0)¦'1_0'|int¦'_1'|int¦'1_'|int¦'1__0'|int
' 12 '|int¦''|int¦'-'|int¦'1e3'|int¦'inf'|int(7)¦'nan'|int(7)¦(1e300*1e300)|int(7)¦[]|int(7)¦nope|int¦true|int¦'1.5'|float¦'inf'|float¦'-Infinity'|float
'0x1p3'|float(7)¦'1_0.5'|float¦nope|float¦[]|float(7)¦1.5|round(401)¦1.5|round(-401)¦15|round(-1)¦25|round(-1)¦35|round(-1)¦24|round(-1)¦26|round(-1)
-15|round(-1)¦-25|round(-1)¦150|round(-2)¦250|round(-2)¦251|round(-2)¦25.0|round(-1)¦35.0|round(-1)¦2.5|round¦3.5|round¦0.125|round(2)¦0.375|round(2)
true|round¦(1e300*1e300)|round¦'a'|round¦nope|round¦1|round(method=1)¦range(7)|batch(3)|list¦range(7)|batch(3, 'x')|list¦range(6)|batch(3, 'x')|list
range(7)|batch(0)|list¦range(7)|slice(3)|list¦range(7)|slice(3, 'x')|list¦range(2)|slice(3, 'x')|list¦range(7)|slice(0)|list¦'a b'|truncate(2, end='')
'foo bar baz qux'|truncate(9)¦'foo bar baz qux'|truncate(9, true)¦'foo bar baz qux'|truncate(11)¦'foo bar baz qux'|truncate(10, leeway=5)
'foo bar baz qux'|truncate(10, leeway=4)¦'foo bar baz qux'|truncate(2)¦'foo bar baz qux'|truncate(3)¦'foobarbazqux'|truncate(5, leeway=0)
{'a': none, 'b': 1, 'c': nope}|xmlattr¦{'a b': 1}|xmlattr¦{'a/b': 1}|xmlattr¦{'a>b': 1}|xmlattr¦{'a=b': 1}|xmlattr¦{1: '<'}|xmlattr¦{'a': '"'|e}|xmlattr
0|filesizeformat¦1|filesizeformat¦1.5|filesizeformat¦999.9|filesizeformat¦1000|filesizeformat¦1023|filesizeformat(true)¦1024|filesizeformat(true)
999999|filesizeformat¦1000000|filesizeformat¦1048575|filesizeformat(true)¦(10**24)|filesizeformat¦(10**27)|filesizeformat¦(10**28)|filesizeformat¦-5|filesizeformat
(-5000)|filesizeformat¦{'a': 1, 2: 'b', 1.5: none, true: 2, none: 3}|tojson¦{(1,): 2}|tojson¦{1: 2, 'a': 3}|tojson(sort_keys=true)
['\u007f\u0080é😀\x00\x1f"\\/\b\f\n\r\t']|tojson¦['\u007f\u0080é😀\uffff']|tojson(ensure_ascii=true)
[1e300*1e300, -1e300*1e300, 1e300*1e300 - 1e300*1e300]|tojson¦[[], {}, [[]], {'a': []}]|tojson(indent=2)¦[1, {'a': 2}]|tojson(indent='--')
[1, 2]|tojson(indent=-1)¦[1, 2]|tojson(separators=('a',))¦[1, 2]|tojson(separators=(1, 2))¦[1, {'a': 2}]|tojson(separators=(';', '='), indent=1)
range(2)|tojson¦nope|tojson¦joiner|tojson¦{'a': 1}.keys()|tojson¦[1, 2]|map('string')|tojson¦('<'|e)|tojson¦lipsum|tojson
'<b>x</b> <!-- c --> y &lt; <br'|striptags¦'a <!-- b'|striptags¦' a  b '|striptags¦'a b-c (d) [e] {f} <g> H1x'|title¦'hello, wörld_1 x'|wordcount
'a\n\nb'|indent(2, false, true)¦'\n'|indent(2, true)¦'a'|indent('>', true)¦'ab'|center(4)¦'ab'|center(5)¦'abc'|center(6)¦'%s-%s'|format(1, 2)
'%(a)s'|format(a=1)¦'%s'|format¦'a'|trim('a')¦'a'|trim(chars=none)¦{}|items|list¦nope|items|list¦1|items¦[1]|random
'a.b.c'.split('.', 1)¦'a.b.c'.rsplit('.', 1)¦'a b  c'.split(none, 1)¦'a b  c '.rsplit(none, 1)¦' a'.split(none, 0)¦' a '.rsplit(none, 0)¦'aXbX'.split('X')
'aXbX'.rsplit('X', 9)¦'-5'.zfill(4)¦'+5'.zfill(4)¦'5-'.zfill(4)¦''.zfill(2)¦'-'.zfill(3)¦'ab'.center(5)¦'ab'.center(4)¦'abc'.center(6)¦'abc'.center(8)
'abcabc'.index('c', 3)¦'abcabc'.rindex('a', 0, 3)¦'abcabc'.find('a', -3)¦'abcabc'.find('a', 1, -1)¦'abcabc'.find('a', none, none)¦'abcabc'.count('abc', 1)
'éab'.find('b')¦'éab'.find('b', 1)¦'éab'.rfind('a', 0, 2)¦'abc'.startswith('b', 1, 1)¦'abc'.startswith('b', 1)¦'abc'.startswith(('b',), 1)¦strftime_now()
strftime_now(1)¦strftime_now('%', 1)¦strftime_now('%Q')¦strftime_now('100%')¦strftime_now('%-d|%-m|%-H|%-M|%-j|%-y|%-I')¦raise_exception()
raise_exception('a', 'b')¦caller()¦loop¦self¦'abc'|upper is upper¦'aB' is lower¦1 is upper¦'é' is lower¦'' is upper¦nope is callable
range is callable¦1 is callable¦{} is mapping¦namespace() is mapping¦range(2) is sequence¦{}.keys() is sequence¦{}.keys() is iterable
[1]|map('abs') is iterable¦[1]|map('abs') is sequence¦1 is iterable¦nope is iterable¦2.5 is odd¦3.0 is odd¦true is odd¦'a' is odd¦nope is odd¦true is number
true is integer¦1.0 is integer¦1 is true¦true is true¦0 is false¦1 is divisibleby 0¦1 is divisibleby¦1 is divisibleby(1, 2)¦1 is odd(2)¦'a' is filter
'upper' is filter¦1 is filter¦'odd' is test¦1 is test¦{'_x': 1}._x is defined¦{'__x': 1}.__x is defined¦{'__x': 1}['__x']¦[(none, 1), (1, none), (none, 1)]|unique|list
'1e999'|float¦'-1e999'|float¦'1e999'|int(7)¦'nan'|float¦loop is defined¦[(1, none)]|unique|list
[('ab', 'c'), ('a', 'bc')]|unique|list¦[('a', 1), ('a', '1')]|unique|list¦[range(2), range(2)]|unique|list|length
'abc'[2**64:]¦'abc'[:2**64]¦'abc'[:-(2**64)]¦'abc'[1:2:3:4]¦{'a': 1}.values(1)¦{'a': 1}.items(1)¦'abc'.find('c', none, 2)¦'abc'.find('a', 1, none)
'a\x1cb\x1db\x1eb\x1fb\vc\fd'.splitlines()¦range(0, 4, 2) == range(0, 3, 2)¦range(0, 4, 2) != range(0, 4, 3)¦(-1) / (-(10**400))¦1 / (-(10**400))¦0 / -7¦0 / 7¦'a%%b%sc' % 1¦'%%' % ()¦'s'['_x'] is defined¦'s'['__class__'] is defined¦'-'.join()¦'-'.join([], 1)
[1, 2]|tojson(separators=none)¦[1, 2]|tojson(indent=none)""")]),
    (["{{ strftime_now('%§') }}|"], [[m + c for c in "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%" for m in ("", "-")]]),
    (["{% for i in § %}{{ [i, loop.index, loop.index0, loop.revindex, loop.revindex0, loop.first, loop.last, loop.length, loop.depth, loop.depth0, loop.previtem is defined, loop.nextitem, loop.cycle(1, 2, 3), "
      "loop.changed(i // 2), loop.changed(i // 2, 1), loop] }}{% else %}none{% endfor %}", "{% for i in § if i %}{{ i }}/{{ loop.length }}{% if i == 2 %}{% break %}{% endif %}{{ loop.nextitem }},{% else %}E{% endfor %}",
      "{% for i in § %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% else %}E{% endfor %}", 
      "{% for i in § %}{% for j in [1, 2] %}{{ j }}{% if j == i %}{% break %}{% endif %}{% else %}e{% endfor %};{% endfor %}", "{% for i in § %}{% continue %}{% else %}E{% endfor %}"],
     [["[]", "[1]", "[1, 2]", "[0, 2, 1, 3]", "'ab'", "{1: 2, 3: 4}", "range(4)", "nope", "none", "1", "[1, 1]|map('abs')"]]),
    ([f"{{% macro m({p}) %}}{{{{ [a, b, c, varargs, kwargs] }}}}{{{{ caller() if caller }}}}{{% endmacro %}}{c}{{{{ m(§) }}}}" for p in ("", "a", "a, b=2", "a=1, b=2", "b, a=b", "a, b=a, c=b")
      for c in ("", "{% call m(7) %}x{% endcall %}", "{{ m.name }}{{ m.arguments }}{{ m.catch_varargs }}{{ m.catch_kwargs }}{{ m.caller }}{{ m }}")] +
     [f"{{% macro m({p}) %}}{{{{ [a, b] }}}}{{% endmacro %}}{{{{ m(§) }}}}" for p in ("", "a", "a, b=2", "b, a=b")],
     [["", "1", "1, 2", "1, 2, 3, 4", "a=1", "b=5", "1, b=3", "1, a=3", "d=4", "*[1, 2]", "**{'a': 8}", "1, *[2], **{'e': 3}", "nope", "*1", "**1"]]),
    (BLANKS + RAW, [[""]]),
    (LINES("""{% for x in [1] %}¦{% endfor %}¦{% if %}{% endif %}¦{% if 1 %}¦{% if 1 %}{% else %}{% else %}{% endif %}¦{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}
{% if 0 %}a{% elif 0 %}b{% elif 1, %}c{% endif %}¦{% if 0 %}{{ 1|nosuch }}{% endif %}x¦{% if 1 %}{{ 1|nosuch }}{% endif %}x¦{{ 1|nosuch if 0 }}x
{{ 1 is nosuch if 0 else 2 }}¦{% for x in [] %}{{ 1|nosuch }}{% endfor %}¦{% if 0 %}{% for x in [] %}{{ x|nosuch }}{% endfor %}{% endif %}
{% if 0 %}{% macro f() %}{{ 1 is nosuch }}{% endmacro %}{% endif %}¦{% if 0 %}{% set y %}{{ 1|nosuch }}{% endset %}{% endif %}
{% if 0 %}{% with %}{{ 1|nosuch }}{% endwith %}{% endif %}¦{% if 0 %}{% filter upper %}{{ 1|nosuch }}{% endfilter %}{% endif %}
{% if 0 %}{% filter nosuch %}{% endfilter %}{% endif %}¦{% for x in 1, 2 %}{{ x }}{% endfor %}¦{% for x in [1, 2] if x > 1 %}{{ x }}{% endfor %}
{% for x in [3] if 1 else [4] %}{{ x }}{% endfor %}¦{% for x, y in [(1, 2)] %}{{ x }}{{ y }}{% endfor %}
{% for (x, y), z in [((1, 2), 3)] %}{{ x }}{{ y }}{{ z }}{% endfor %}¦{% for x, in [(1,)] %}{{ x }}{% endfor %}¦{% for x, y in [(1,)] %}{{ x }}{% endfor %}
{% for x, y in [1] %}{{ x }}{% endfor %}¦{% for true in [1] %}{% endfor %}¦{% for x of [1] %}{% endfor %}¦{% for x in [1] recursive %}{{ loop(2) }}{% endfor %}
{% for x in [1] recursive %}{{ loop([]) }}{% endfor %}¦{% for x in [1, [2, [3]]] recursive %}{{ loop.depth }}{{ loop(x) if x is iterable else x }}{% endfor %}
{% for x in [1] %}{{ loop([]) }}{% endfor %}¦{% for x in [1] recursive %}{{ loop() }}{% endfor %}¦{% for x in [1] recursive %}{{ loop([], 1) }}{% endfor %}
{% for x in [1] %}{{ loop.nosuch is defined }}{{ loop.cycle() }}{% endfor %}¦{% for x in [1] %}{{ loop['index'] }}{{ loop[0] is defined }}{% endfor %}
{% for x in [1, 2] %}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}¦{% break %}¦{% continue %}
{% for x in [1] %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}¦{% for x in [1] %}{% call f() %}{% continue %}{% endcall %}{% endfor %}
{% for x in [1, 2] %}{% set y %}a{% endset %}{{ y }}{% endfor %}
{% for x in [1, 2] %}{% with y = x %}{% if y == 1 %}{% continue %}{% endif %}{{ y }}{% endwith %}{% endfor %}
{% for x in [1] %}{% else %}{% break %}{% endfor %}¦{% set x = 1, 2 %}{{ x }}¦{% set x, y = 1, 2 %}{{ x }}{{ y }}¦{% set x, y = 1 %}¦{% set x, y = [1, 2, 3] %}
{% set (x, y), z = (1, 2), 3 %}{{ x }}{{ y }}{{ z }}¦{% set x, = [1] %}{{ x }}¦{% set true = 1 %}¦{% set None = 1 %}¦{% set false, x = 1, 2 %}¦{% set 1 = 1 %}
{% set x %}¦{% set x | upper | trim %} a {% endset %}{{ x }}¦{% set x, y %}ab{% endset %}{{ x }}{{ y }}¦{% set x.y = 1 %}
{% set n = namespace() %}{% set n.a = 1 %}{{ n.a }}{{ n }}¦{% set n = namespace(a=1) %}{% set n.a, b = 2, 3 %}{{ n.a }}{{ b }}
{% set n = {} %}{% set n.a = 1 %}¦{% set n = namespace() %}{% set n.a %}x{% endset %}{{ n.a }}
{% set n = namespace() %}{% for i in [1, 2] %}{% set n.a = i %}{% endfor %}{{ n.a }}¦{% set n.1 = 1 %}¦{% set x = %}¦{% set x 1 %}¦{% set = 1 %}
{% with %}x{% endwith %}¦{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}¦{% with a = 1, b = a %}{{ b }}{% endwith %}¦{% with a = 1 b = 2 %}{% endwith %}
{% with a %}{% endwith %}¦{% with a, b = 1, 2 %}{% endwith %}¦{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter upper|replace('A', 'b') %}a{% endfilter %}¦{% filter trim %} a {% endfilter %}¦{% filter %}a{% endfilter %}¦{% filter upper %}a
{% filter replace('a', 'b') %}aa{% endfilter %}¦{% filter indent(2, first=true) %}a{% endfilter %}¦{% macro f %}{% endmacro %}¦{% macro f() %}
{% macro f(a %}{% endmacro %}¦{% macro f(a=1, b) %}{% endmacro %}¦{% macro f(a, a) %}{% endmacro %}¦{% macro f(1) %}{% endmacro %}
{% macro f(a,) %}{{ a }}{% endmacro %}{{ f(1) }}¦{% macro f(a) %}{{ a }}{{ caller is defined }}{% endmacro %}{{ f(1) }}
{% macro f() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}
{% macro f() %}{{ caller(1) }}{% endmacro %}{% call(a, b=3) f() %}{{ a }}{{ b }}{% endcall %}
{% macro f() %}{{ caller(1) }}{% endmacro %}{% call f() %}x{% endcall %}¦{% macro f() %}{{ caller }}{{ caller.name }}{% endmacro %}{% call f() %}x{% endcall %}
{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}¦{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}
{% macro f(x) %}{{ x }}{% if x %}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro f() %}a{% endmacro %}{% macro g() %}{{ f() }}b{% endmacro %}{{ g() }}¦{% macro f() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ f() }}{{ x is defined }}
{% call f %}{% endcall %}¦{% call range(2) %}{% endcall %}¦{% call joiner() %}{% endcall %}¦{% call 'a'.upper() %}{% endcall %}¦{% call nope() %}{% endcall %}
{% call(a f() %}{% endcall %}¦{% nosuch %}¦{% 1 %}¦{% %}¦{%%}¦{{ }}¦{{}}¦{{ 1¦{{ 1 }¦{{ 1 %}¦{% if 1 }}¦{# a¦{# a #}b{#- c -#} d {#+ e +#} f¦{#-#}x¦{#--#} x
{#+#} x¦{#}¦{##}x¦{ { x } }¦{x}}¦a{¦a{{'{{'}}b¦{% raw %}{{ x }}{% endraw %}¦{% raw %}{{ x }}¦{%raw%}a{%endraw%}b¦{% raw x %}a{% endraw %}
{%- raw -%} {% x %} {%- endraw -%} b¦{% endraw %}¦{% endif %}¦{% endfor %}¦{% if 1 %}{% endfor %}¦{% for x in [1] %}{% endif %}¦{{ 1 }}}
{{ {'a': {'b': 1}}.a.b }}¦{{ {'a': {'b': 1}}}}¦{{ '}}' }}¦{{ "%}" }}{# '#} #}¦{{ 'a' -}} b {{- 'c' }} d¦{{ 1 ; 2 }}¦{{ 1 = 2 }}¦{{ 1 ! 2 }}¦{{ $ }}¦{{ a@b }}
{{ é }}{% set é = 1 %}{{ é }}¦{% set _x1 = 2 %}{{ _x1 }}
{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.current }}
{% set c = cycler(1, 2, 3) %}{{ c.next() }}{{ c.reset() }}{{ c.next() }}¦{% set j = joiner('-') %}{{ j() }}a{{ j() }}b{{ j() }}
{% set g = [1, 2]|map('abs') %}{{ g|list }}{{ g|list }}¦{% set g = [1, 2, 3]|map('abs') %}{{ g|first }}{{ g|list }}
{% set g = [1, 2]|select('odd') %}{% for x in g %}{{ x }}{% endfor %}{{ g|list }}¦{% set g = [1, 2]|map('abs') %}{{ 1 in g }}{{ g|list }}
{% set x = [1, 2] %}{% set y = x + [3] %}{{ x }}{{ y }}{{ x|reverse|list }}{{ x }}{{ x|sort(reverse=true) }}{{ x }}
{% set d = {'a': 1} %}{% set e = dict(d, b=2) %}{{ d }}{{ e }}¦{% include 'a' %}¦{% import 'a' as b %}¦{% extends 'a' %}¦{% for x in [1], recursive %}{{ loop.depth }}{% endfor %}¦{% set x is odd %}{% endset %}¦{% set x (1) %}{% endset %}¦{% filter is odd %}{% endfilter %}
{% filter upper is odd %}a{% endfilter %}¦{% filter upper(1) %}a{% endfilter %}¦{% set x|upper is odd %}a{% endset %}¦{% set i = '1e999'|float %}{{ [i, -i, i]|unique|list }}¦{% set i = '1e999'|float %}{{ '%d' % i }}¦{% set i = 'nan'|float %}{{ '%d' % i }}{{ i }}¦{% set i = '1e999'|float %}{{ {i: 1}[i] }}{{ i|int(3) }}{{ i|round }}{{ [i]|tojson }}
{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(b=1, 2) }}
{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(**{'b': 1}, 2) }}
{% macro g() %}{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}{{ caller() }}{% endmacro %}{% call g() %}x{% endcall %}""") + ["{% if true %}\n\n{{ nope.x }}\n{% endif %}", "a\r\nb\rc\n\n", "\n", "", "{{ 'a\nb' }}\n{% if %}"], [[""]]),
    (["{{ " + "[" * n + "]" * n + " }}" for n in (1, 30)], [[""]]),
    ([f"{{{{ {t}|wordwrap(§) }}}}" for t in ("'a well-known e-mail, x--y --z -- w- -v 3-4 a-b-c antidisestablishment'", "'  lead  and\\ttab\\n\\n second line '", "'aaa-bbbb-cc dd'", "'a--b c---d'", "'ab-cd'", "''", "'ééé ß-öö'")],
     [["1", "2", "3", "4", "5", "6", "7", "9", "12", "40"], ["", "false"], ["", "break_on_hyphens=false"]]),
]

if __name__ == "__main__":
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "options.jsonl")
    with open(path, encoding="utf-8") as f:
        old = {str((row["expressions"], row["options"])): row["texts"] for row in map(json.loads, f)}
    with open(path, "w", encoding="utf-8") as f:
        for expressions, options in ROWS:
            texts = []
            for expression, chosen in itertools.product(expressions, itertools.product(*options)):
                given = ", ".join(filter(None, chosen))
                try:
                    text = env.from_string(expression.replace("§", given)).render()
                    texts.append(True if " at 0x" in text.lower() else text)
                except jinja2.UndefinedError:
                    texts.append(False)
                except Exception:
                    texts.append(None)
            was = old.get(str((expressions, options)), texts)
            texts = [True if w is True else text for w, text in zip(was, texts)]
            f.write(json.dumps({"expressions": expressions, "options": options, "texts": texts}, ensure_ascii=False, separators=(",", ":")) + "\n")
