#!/usr/bin/env python3
"""Records what Jinja2 writes for every combination of the options of each filter, function and method, and writes
options.jsonl. Needs jinja2 3.1.6: python3 make_options.py

Each line: expressions with § where the options go, alternatives for each option ("" for its default), and the texts of
all combinations, for each expression in turn, the last option changing fastest; null for an error.
"""
import itertools, json, os
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
      "forceescape", "safe|e", "striptags", "trim", "tojson", "int", "float", "sum", "min", "max", "pprint")], [[""]]),
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
    (["{{ 'http://example.com/long tel:12 a@b.cd'|urlize(§) }}"],
     [["", "trim_url_limit=9"], FLAG("nofollow"), ["", "target='_b'"], ["", "rel='z'"], ["", "extra_schemes=['tel:']"]]),
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
    (["{{ 'a\\tb'.expandtabs(§) }}", "{{ '-12'.zfill(§) }}"], [["", "4", "tabsize=2", "0"]]),
    (["{{ range(§)|list }}"], [["5", "2", "-3"], ["", "7", "0"], ["", "2", "-1"]]),
    (["{% set j = joiner(§) %}{{ j() }}a{{ j() }}b"], [["", "'; '", "sep='/'"]]),
    (["{{ {'a': 1}.get(§) }}"], [["'a'", "'b'"], ["", "2"]]),
]

if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "options.jsonl"), "w", encoding="utf-8") as f:
        for expressions, options in ROWS:
            texts = []
            for expression, chosen in itertools.product(expressions, itertools.product(*options)):
                given = ", ".join(filter(None, chosen))
                try:
                    texts.append(env.from_string(expression.replace("§", given)).render())
                except Exception:
                    texts.append(None)
            f.write(json.dumps({"expressions": expressions, "options": options, "texts": texts}, ensure_ascii=False, separators=(",", ":")) + "\n")
