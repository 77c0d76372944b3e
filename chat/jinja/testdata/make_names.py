#!/usr/bin/env python3
"""Records which value a name has in Jinja2, and writes names.jsonl. Needs jinja2 3.1.6: python3 make_names.py

A template is read + open + read + set + read + close + read. x is given or not, and the block of open and close is
taken (t) or not; of two blocks, one in the other, the inner one has the condition u. A case is the text of set, which
reads are there, the last digit being those at § between the two blocks, and what Jinja2 writes, in the order of the
loops below.
"""
import itertools, json, os
import jinja2, jinja2.ext, jinja2.sandbox

env = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

READ = "{{ x|default('U') }};"
BLOCKS = {
    "none": ("", ""),
    "if": ("{% if T %}", "{% endif %}"),
    "else": ("{% if not T %}{% else %}", "{% endif %}"),
    "elif": ("{% if no %}{% elif T %}", "{% endif %}"),
    "if, set in else": ("{% if T %}", "{% else %}{% set x = 'e' %}{% endif %}"),
    "else, set in if": ("{% if not T %}{% set x = 'i' %}{% else %}", "{% endif %}"),
    "for": ("{% for i in ([1, 2] if T else []) %}", "{% endfor %}"),
    "for if": ("{% for i in [1, 2] if T and x != 's' %}", "{% endfor %}"),
    "for of itself": ("{% for i in (x|default('yz') if T else []) %}{{ i }}", "{% endfor %}"),
    "for else": ("{% for i in ([] if T else [1]) %}{% else %}", "{% endfor %}"),
    "for, set in else": ("{% for i in ([1] if T else []) %}", "{% else %}{% set x = 'e' %}" + READ + "{% endfor %}"),
    "for target": ("{% for x in (['a', 'b'] if T else []) %}", "{% endfor %}"),
    "for target if": ("{% for x in (['a', 'b'] if T else []) if x != 'a' %}", "{% endfor %}"),
    "for targets": ("{% for i, x in ([(1, 'a')] if T else []) %}", "{% endfor %}"),
    "for recursive": ("{% for i in ([[[]]] if T else []) recursive %}", "{{ loop(i) if i }}{% endfor %}"),
    "for break": ("{% for i in [1, 2] %}{% if not T %}{% break %}{% endif %}", "{% endfor %}"),
    "for continue": ("{% for i in [1, 2] %}{% if i == 1 and T %}{% continue %}{% endif %}", "{% endfor %}"),
    "macro": ("{% macro m() %}", "{% endmacro %}{% if T %}{{ m() }}{% endif %}"),
    "macro twice": ("{% macro m() %}", "{% endmacro %}{% if T %}{{ m() }}{% set x = 'c' %}{{ m() }}{% endif %}"),
    "macro parameter": ("{% macro m(x) %}", "{% endmacro %}{% if T %}{{ m('p') }}{{ m() }}{% endif %}"),
    "macro default": ("{% macro m(y=x) %}[{{ y|default('D') }}]", "{% endmacro %}{% if T %}{{ m() }}{% endif %}"),
    "macro own default": ("{% macro m(x=x) %}", "{% endmacro %}{% if T %}{{ m() }}{% endif %}"),
    "with": ("{% with %}", "{% endwith %}"),
    "with target": ("{% with x = 'w' %}", "{% endwith %}"),
    "with of another": ("{% with x = 'w', y = x %}[{{ y|default('Y') }}]", "{% endwith %}"),
    "with of itself": ("{% with x = x, y = x %}[{{ y|default('Y') }}]", "{% endwith %}"),
    "call": ("{% macro k() %}{% if T %}({{ caller() }}){% endif %}{% endmacro %}{% call k() %}", "{% endcall %}"),
    "call parameter": ("{% macro k() %}{% if T %}{{ caller('p') }}{% endif %}{% endmacro %}{% call(x) k() %}", "{% endcall %}"),
    "call default": ("{% macro k() %}{% if T %}{{ caller() }}{% endif %}{% endmacro %}{% call(y=x) k() %}[{{ y|default('D') }}]", "{% endcall %}"),
    "call of itself": ("{% macro k(v) %}{% if T %}[{{ v|default('V') }}]{{ caller() }}{% endif %}{% endmacro %}{% call k(x) %}", "{% endcall %}"),
    "filter": ("{% filter upper %}", "{% endfilter %}"),
    "filter of itself": ("{% filter replace('q', x|default('F')) %}q", "{% endfilter %}"),
    "set block": ("{% set y %}", "{% endset %}{{ y if T }}"),
    "set block, filtered": ("{% set y | replace('q', x|default('F')) %}q", "{% endset %}{{ y if T }}"),
    "if of itself": ("{% if x and T %}i", "{% endif %}"),
    "macro that reads": ("{% macro m() %}" + READ + "{% endmacro %}{{ m() if T }}", "{{ m() if T }}"),
    "set block of itself": ("{% set x %}", "{% endset %}"),
}
# What reads x in an expression, before a set at its level.
READERS = ["'q'|replace('q', new=x|default('N'))", "dict(**{'k': x|default('N')})", "dict(*[[('k', x|default('N'))]])", "[x|default('N')]",
           "{'k': x|default('N')}", "'abc'[:(x|length)]", "x is defined", "not x", "x ~ ''", "x == 'G'", "'G' in x", "1 if x else 2", "x and 1", "x is eq('G')",
           "'G' is eq(x)", "x|upper", "loop|default(x)|default('N')", "[1]|map('string')|join(x|default('N'))"]
SETS = ["{% set x = 's' %}", "{% set x %}s{% endset %}", "{% set x, z = 's', 1 %}", "{% set x = x ~ 's' %}", "{% macro x() %}{% endmacro %}",
        "{% set n = namespace() %}{% set n.x = 's' %}{{ n.x }}"]
# The blocks that read x, before a set at their level.
BEHIND = ["for of itself", "for if", "macro default", "macro own default", "with of itself", "with of another", "call of itself",
          "call default", "filter of itself", "set block, filtered", "if of itself"]
NESTED = ["if", "else", "for", "for else", "for target", "macro", "macro parameter", "with", "call", "filter", "set block"]


def texts(opening, set, close, reads, conditions):
    for read in reads.split():
        before, first, second, after, between = (READ if c == "1" else "" for c in read)
        text = before + opening + first + set + second + close + after
        template = env.from_string(text.replace("§", between))
        for given, *taken in itertools.product([False, True], repeat=1 + len(conditions)):
            yield template.render(**({"x": "G"} if given else {}), **dict(zip(conditions, taken)))


def row(opening, close, conditions, cases):
    return {"open": opening, "close": close, "conditions": conditions,
            "cases": [[set, reads, "|".join(texts(opening, set, close, reads, conditions))] for set, reads in cases]}


if __name__ == "__main__":
    rows = []
    for opening, close in BLOCKS.values():
        cases = [(SETS[0], "00010 00100 00110 10110 01110 11110")] + [(set, "00110 11110") for set in SETS[1:]]
        rows.append(row(opening.replace("T", "t"), close.replace("T", "t"), "t", cases))
    for block in BEHIND + ["{% if T %}{{ " + reader + " }}{% endif %}" for reader in READERS]:
        rows.append(row("".join(BLOCKS.get(block, block)).replace("T", "t"), "", "t", [(SETS[0], "00000 00010 10010")]))
    for a, b in itertools.product(NESTED, NESTED):
        outer, inner = ([s.replace("T", t) for s in BLOCKS[n]] for n, t in ((a, "t"), (b, "u")))
        rows.append(row(outer[0] + "§" + inner[0], inner[1] + "§" + outer[1], "tu", [(SETS[0], "00010 00011 11111")]))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.jsonl"), "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n")
