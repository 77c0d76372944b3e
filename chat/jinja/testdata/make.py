#!/usr/bin/env python3
"""Records what Jinja2 renders from templates with the constructs that chat templates use, in the environment that
transformers gives them, and writes recorded.jsonl. Needs jinja2 3.1.6: python3 make.py

Templates that end in an error are recorded with its text and type.
"""
import datetime, json, os
import jinja2, jinja2.ext, jinja2.sandbox

NOW = datetime.datetime(2024, 2, 5, 15, 4, 9)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: NOW.strftime(f)

TALK = {"messages": [
    {"role": "system", "content": "Be brief. "},
    {"role": "user", "content": "What's <|end|>?\n\"é\""},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nAn end.", "tool_calls": [
        {"id": "abc123", "type": "function", "function": {"name": "look_up", "arguments": {"q": "x", "n": 2.0, "a": [None, True]}}}]},
    {"role": "tool", "content": "{\"ok\": 1}", "tool_call_id": "abc123"},
    {"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "image"}, {"type": "text", "text": "b"}]}],
    "tools": [{"type": "function", "function": {"name": "look_up", "description": "Looks 'it' up & back.", "parameters": {
        "type": "object", "properties": {"q": {"type": "string", "enum": ["x", "y"]}, "n": {"type": "number"}}, "required": ["q"]}}}],
    "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
CASES = "ßẞŉǰİıſΐΰ\u1fd3\u1fe3ևẖẗẘẙẚẛὐὒὔὖᾀᾈᾗᾟᾦᾮᾲᾳᾴᾶᾷᾼῂῃῄῆῇῌῒῖῗῢῤῦῧῲῳῴῶῷῼﬀﬁﬂﬃﬄﬅﬆﬓﬔﬕﬖﬗςΣΣΣ.Σ：aΣaǄǅǆǈᲀꭰᏸᎠⅧⅷⓐµÅª\u0345ა"
L = "{% for m in messages %}"
E = "{% endfor %}"
TEMPLATES = [
    L + "{{ '<|' + m['role'] + '|>\n' + (m.content if m.content is string else '') + eos_token }}\n" + E,
    "{{- bos_token }}\n" + L + "\n  {%- if m.role == 'user' %}\n    {{- '[INST] ' ~ m.content ~ ' [/INST]' }}\n  {%- elif m.role == 'assistant' -%}\n {{ m.content }}{{ eos_token -}}\n  {%- else %}other{% endif %}\n" + E + "\nend",
    L + "{% if loop.first %}F{% endif %}{{ loop.index }}/{{ loop.length }}{{ '' if loop.last else ',' }}" + E,
    "{% set ns = namespace(found=false, n=0) %}" + L + "{% if m.role == 'tool' and not ns.found %}{% set ns.found = true %}{% set ns.n = loop.index0 %}{% endif %}" + E + "{{ ns.found }} {{ ns.n }}",
    L + "{% if m.content is string and '</think>' in m.content %}{% set c = m.content.split('</think>')[-1].lstrip('\n') %}{% set r = m.content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}[{{ r }}|{{ c }}]{% endif %}" + E,
    "{% macro render(c) %}{% if c is string %}{{ c|trim }}{% elif c is iterable %}{% for p in c %}{% if p.type == 'text' %}{{ p.text }}{% else %}<{{ p['type'] }}>{% endif %}{% endfor %}{% endif %}{% endmacro %}" + L + "{{ render(m.content) }};" + E,
    "{% for t in tools %}{{ t | tojson }}\n{{ t | tojson(indent=4) }}\n{{ t.function | tojson(separators=(',', ':'), sort_keys=true) }}{% endfor %}",
    "{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}: {{ v.type }}{% if v.enum %} ({{ v.enum|join('|') }}){% endif %}{{ '; ' if not loop.last }}{% endfor %}",
    "{% set m = messages|selectattr('role', 'equalto', 'user')|map(attribute='role')|list %}{{ m }} {{ m|length }} {{ messages|rejectattr('tool_calls', 'defined')|list|length }}",
    "{{ messages[1:]|length }} {{ messages[-1].role }} {{ messages[::-1][0].role }} {{ messages[:2]|map(attribute='role')|join('/') }}",
    L + "{% for c in m.tool_calls or [] %}{{ c.id[-4:] }} {{ c.function.arguments|tojson }} {{ c.function.arguments|items|list }}{% endfor %}" + E,
    L + "{% if m.role == 'system' %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}{{ m.role }}\n" + E,
    "{% set x %}\n  {{ messages[0].content }}\n{% endset %}[{{ x }}]{{ x|trim|length }}",
    "{% set text | replace('e', '3') | upper %}{{ messages[0].content }}{% endset %}{{ text }}",
    "{% macro box(t) %}<{{ t }}>{{ caller() | trim }}</{{ t }}>{% endmacro %}{% call box('a') %} {{ messages[0].content }} {% endcall %}",
    "{% macro f(x, y='d', z=none) %}{{ x }}{{ y }}{{ z }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, 4, k=5) }}{{ f(y=1, x=0) }}",
    "{% if tools is defined and tools is not none and tools|length > 0 %}T{% endif %}{% if documents is not defined %}N{% endif %}{{ x is defined }}{{ x|default('dd') }}",
    "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %d, %Y %H:%M:%S %p %a %U %W %w %u %e') }}",
    "{{ raise_exception('Roles must alternate: ' ~ messages[0].role) }}",
    "{%- set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages -%}\n{%- for m in loop_messages -%}\n{{ loop.index0 % 2 == 0 }}{{ (m.role == 'user') != (loop.index0 % 2 == 0) }},\n{%- endfor -%}",
    "{{ 'ab' 'cd' ~ 1 + 2 if false else 'x' * 3 }} {{ [1, 2] + [3] }} {{ (1,) + (2,) }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ 2 ** 3 ** 2 }}",
    "{{ 'Hello World'.replace('o', '0', 1) }} {{ 'a,b'.split(',') }} {{ ' x '.strip() }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'[1:] }} {{ 'abc'[-1] }} {{ 'x'.join(['1', '2']) }} {{ 'aXb'.lower().title() }} {{ 'it\\'s'.title() }} {{ \"it's\"|title }}",
    "{{ {'a': 1}.get('b', 2) }} {{ {'b': 1, 'a': 2}|dictsort }} {{ {'a': 1}.keys()|list }} {{ {'a': 1}.items()|list }} {{ {'a': {'b': 1}}['a'].b }}",
    "{{ none }} {{ true and 1 }} {{ [] or 'e' }} {{ not none }} {{ 1 == 1.0 }} {{ 'a' in 'abc' }} {{ 'a' not in ['b'] }} {{ 1 < 2 <= 2 }}",
    "  {%- if true %}  a\n  {% if true -%}   b   {%- endif %}\n  {%+ if true %}c{% endif %}\n\t{# n #}\n{% endif %}\n  d  {#- e #} f\n",
    "{% for a in [1, 2] %}{% for b in [3, 4] if b != a + 2 %}{{ a }}{{ b }}{{ loop.index }}{% else %}none{% endfor %}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}{% filter upper %}x{{ 'y' }}{% endfilter %}{% raw %}{{ z }}{% endraw %}",
    "{{ messages[9].role }}", "{{ messages[0].nope.x }}", "{{ nope.x }}", "{{ 'a' + 1 }}", "{% for x in none %}{% endfor %}",
    "{{ [3, 1, 2]|sort|reverse|list }} {{ ['b', 'A']|sort }} {{ [1, 1, 2]|unique|list }} {{ [1, 2]|sum }} {{ [[1, 2], [3]]|map('length')|list }} {{ range(3)|list }} {{ 'abc'|list }} {{ [1, 2, 3]|batch(2)|list }}",
    "{{ 'x\ny'|indent(2, true) }} {{ 3.7|int }} {{ '12'|int + 1 }} {{ 2.5|round }} {{ '%s-%02d' % ('a', 5) }} {{ '{:>4}|{}'.format('a', 1.5) }} {{ 'abc'|first }}{{ 'abc'|last }} {{ 'a b c'|wordcount }} {{ '<&>'|e }}",
    L + "{{ m }}\n" + E, "{{ tools }}", "{{ messages|tojson(indent=2) }}",
    "{% for m in messages recursive %}{{ loop.depth }}{{ m.role|default('p') }}{% if m.content is not string and m.content is iterable %}({{ loop(m.content) }}){% endif %}{% endfor %}",
    "{% set a, b = 'x', [1] %}{{ a }}{{ b }}{% set c = a, b %}{{ c }}{% for k, (p, q) in [(1, (2, 3))] %}{{ k }}{{ p }}{{ q }}{% endfor %}",
    L + "{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if not loop.last }}{{ loop.changed(m.role) }}{{ loop.cycle('a', 'b') }} " + E,
    "{{ strftime_now('%V %G %g %C %l|%k|%r|%P %-l %-V %h %D %R %F %j %n%t%%') }}",
    "{{ '<b>a</b> &amp; b&lt;'|striptags }} {{ 'a\x1cb c\u00a0d-e'|title }} {{ none|map('upper')|list }} {{ none|select|list }}",
    "{{ 'a well-known e-mail-list -- x--y (foo) antidisestablishmentarianism, it\'s 3-4 -5'|wordwrap(9) }}|{{ 'aaaa-bbbb  cc'|wordwrap(3, false, '/', false) }}",
    "{% for s in ['', 'A', 'a', 'Ab Cd', 'AB', 'It\\'S', 'It\\'s', '1A b', 'ǅ', 'ǅx', '1', 'Ⅷ', 'Ⓐⓑ', 'ªb', 'ⅷ'] %}{{ s.istitle() }}{{ s.isupper() }}{{ s.islower() }} {{ s.title() }} {% endfor %}",
    "{{ 'ananas'.count('an', 1) }} {{ 'ananas'.count('a', 1, -1) }} {{ 'abc'.count('') }} {{ 'abc'.count('', 3) }} {{ 'abc'.count('', 4) }} {{ 'abc'.count('b', 5) }}",
    "{{ 'ab-c a-bc ab-cd 12-34 ab-12 a-b-cd ab-c-d'|wordwrap(4, false) }}|{{ 'ab-c12-34ab-cd'|wordwrap(3) }}",
    # Characters whose case mappings are no single letters, or depend on what is around them, and what counts as a digit.
    "{% for c in '" + CASES + "' %}{{ c.upper() }} {{ c.lower() }} {{ c.title() }} {{ c.capitalize() }} {{ c.swapcase() }} {{ c.casefold() }},{% endfor %}",
    "{{ 'ŉA ßx ǆǆ ﬃﬃ ΑΣ ΑΣ.Β Σ aΣ‘ aΣ：a'|capitalize }} {{ 'ŉA ßx ǆǆ ﬃﬃ ΑΣ İb'.title() }} {{ 'ßx ﬃ-ᾳ'|title }} {{ 'ΑΣ ΑΣ·Β ⅧⓐßǅªΣ'.swapcase() }} {{ 'ﬃ'|upper|length }}",
    "{% for c in '0٣𝟘²₃①⑽⒈➉🄊½Ⅷ〇一万參億𠀁a゛ªͅ' %}{{ c }}{{ c.isdigit() }}{{ c.isdecimal() }}{{ c.isnumeric() }}{{ c.isalpha() }}{{ c.isalnum() }}{{ c|int }} {% endfor %}",
    "{% for s in ['', '²', '1²', '1½', '1一', '1a', '-1', '1.0', '1_0', '１２'] %}{{ s.isdigit() }}{{ s.isdecimal() }}{{ s.isnumeric() }} {% endfor %}",
    "{{ '٣_1'|int }} {{ ' 𝟘.٣e1 '|float }} {{ '0x_1f'|int(base=16) }} {{ 'z_p'|int(base=36) }} {{ '20o'|int(base=8) }} {{ '1_a'|int }} {{ '-0b11'|int(base=2) }} {{ '1_000'|float }} {{ '0x-5'|int(9, 16) }} {{ '٣3'|filesizeformat }} {{ ' 1e6 '|filesizeformat(true) }}",
    "{{ 'x'|filesizeformat }}",
    "{{ {'a b': 'é/ü', 'c&d': 1, '+': none, '~': ['x y']}|urlencode }} {{ [('a', 1), ['b c', '/'], 'xy']|urlencode }} {{ 'a/b +~é'|urlencode }} {{ {}|urlencode }}|{{ nope|urlencode }}|{{ 1.5|urlencode }} {{ {'k': 'v w'}.items()|urlencode }}",
    "{{ [1]|urlencode }}", "{{ [(1, 2, 3)]|urlencode }}", "{{ range(3)|urlencode }}",
    "{{ '\\é\\€\\😀\\q\\400\\x41\\u00e9\\U0001F600\\\nx' }}", "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ '\\U00110000' }}", "{{ '\\xgg' }}",
    "{{ '%a %r' % ('é€😀\\x07', 'é') }} {{ '{!a:>9}|{!r}'.format('é', 'é') }}",
    "{{ 'abc'.find('', 4) }} {{ 'abc'.find('', 3) }} {{ 'abc'.find('', 2, 1) }} {{ 'abc'.startswith('', 4) }} {{ 'abc'.endswith('', 3) }} {{ 'abc'.endswith('', 2, 1) }} {{ 'abc'.count('', 2, 1) }} {{ 'abc'.rfind('', -1, 0) }} {{ 'abc'.startswith('b', 1) }}",
    "{{ 'abc'.index('', 2, 1) }}", "{{ 'abc'.partition('') }}", "{{ 'abc'.rpartition('') }}",
    "{{ 'a <b>c</b>\x1cd <!-- e > f'|striptags }}|{{ '<!-- a > -->b <!--> c -->d < e'|striptags }}",
    # What Python does with values of another type than the filter or the operator wants.
    "{{ messages[0][:2] }}", "{{ messages[2].tool_calls[0].function.arguments.n[1:] }}", "{% set x = none %}{{ x[:1] is defined }}",
    "{{ 7|indent }}", "{{ [1]|indent }}", "{{ 7|wordwrap(5) }}", "{{ 7|truncate(5) }}", "{{ messages|truncate(0, end='') }}", "{{ {'a': 1}|truncate(3) }}",
    "{{ nope|truncate }}{{ 'ab cd ef'|truncate(4, leeway=0, end='') }}", "{{ 'a'|length(1) }}", "{{ 'a'|string('b') }}", "{{ [1]|reverse(true) }}", "{{ 'a'|upper(x=1) }}",
    "{{ -0.0|round(1, 'floor') }} {{ -0.3|round(0, 'ceil') }} {{ 0 / -7 }} {{ 1.5.imag }} {{ 2.imag }} {{ nope is callable }}",
    "{{ '%G %g %E %F' % (1e20, 1e20, 0.5, 2) }} {{ 'x' % messages }}{{ 'y' % nope }}{{ {'a': 1, 'b': none, 'c': 2}|xmlattr(false) }}|{{ {'a': 1}|xmlattr }}", "{{ 'x' % (1,) }}", "{% filter length %}ab{% endfilter %}",
]

if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.jsonl"), "w", encoding="utf-8") as f:
        for i, text in enumerate(TEMPLATES):
            row = {"feature": f"{i:02}", "template": text, "variables": TALK, "now": "2024-02-05T15:04:09"}
            try:
                row["text"] = env.from_string(text).render(**TALK)
            except Exception as e:
                row["error"], row["error_type"] = str(e), type(e).__name__
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
