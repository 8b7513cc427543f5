#!/usr/bin/env python3
"""Writes tests/data/template/cases.json: what Jinja2 makes of small templates.

Needs the jinja2 package.  The environment is the one Hugging Face's apply_chat_template uses:
an immutable sandbox with trimmed blocks, loop controls, its own tojson, raise_exception,
strftime_now (here of the variable `now`) and generation blocks that only mark text.

    tools/make_template_fixtures.py > tests/data/template/cases.json
"""
import copy
import datetime
import json
import sys

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def make_environment(variables):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda pattern: datetime.datetime.fromisoformat(
        variables["now"]).strftime(pattern)
    return env


MESSAGES = {
    "messages": [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "  Hi \u00e9\U0001F600 \"there\"\n"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, True, None]}}}]},
        {"role": "tool", "content": "42"},
    ],
    "add_generation_prompt": True,
    "bos_token": "<s>",
}
PEOPLE = {"people": [{"name": "bob", "age": 30, "tags": ["x"]}, {"name": "Al", "age": 25},
                     {"name": "cy", "age": 30, "tags": []}]}
MIX = {"n": 7, "f": 2.5, "s": "Hello", "t": True, "z": None, "l": [3, 1, 2], "d": {"b": 1, "A": 2},
       "e": [], "u": "na\u00efve \u4e16\u754c"}

# (template, variables)
CASES = [
    # blanks
    ("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", {}),
    ("a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc", {}),
    ("  {%+ if true +%}\n  b{% endif %}\n", {}),
    ("x {{- ' y ' -}} z {{ 1 }}\n{{ 2 }}\n\n", {}),
    ("a {# c #}\nb {#- c -#}\n c\n  {# whole line #}\nd{#+ keep +#}\ne", {}),
    ("{% raw %}{{ x }} {% if %}{% endraw %}\n|{%- raw -%}  {# y #}  {%- endraw -%}  |", {}),
    ("one\r\ntwo\rthree\r\n", {}),
    ("  {{ 1 }}  {% set a = 1 %}  \n  {% set b = 2 %}  x", {}),
    ("{{ '}}' }}{{ {'a': {'b': 1}} }}{{ \"%}\" }}", {}),
    ("{{ }", {}), ("{% if x %}", {}), ("{% endif %}", {}), ("{{ 'a }}", {}), ("{# never", {}),
    # literals and text of values
    ("{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1_000 }} {{ 0x1F }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789.125 }}", {}),
    ("{{ 0.1 + 0.2 }} {{ 1e22 }} {{ 1/3 }} {{ 100.0 }} {{ 1e-4 }} {{ 0.00001 }} {{ -0.0 }}", {}),
    ("{{ true }} {{ False }} {{ none }} {{ None }} {{ [1, 'a', \"it's\", none] }} {{ (1,) }} {{ () }} {{ {} }}", {}),
    (r"""{{ 'a\n\t\\\'\"\x41\u00e9\U0001F600\q\101' }}""", {}),
    (r"""{{ ['a\n\x01\x7f\u00e9\u200b\\', 'q"', "q'", 'q\'"'] }}""", {}),
    ("{{ 'a' 'b' \"c\" }}", {}),
    ("{{ messages }}", MESSAGES),
    ("{{ {'a': 1, 2: [3], (1, 2): none, 1.5: true} }} {{ 1, 2 }}", {}),
    # operators
    ("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}", {}),
    ("{{ -9223372036854775807 % 3 }} {{ 9223372036854775807 % -2 }} {{ -9223372036854775807 // 2 }}", {}),
    ("{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 'ab' * 3 }} {{ [1] * 2 + [2] }} {{ true + 1 }}", {}),
    ("{{ 1 ~ 'a' ~ none ~ 2.0 ~ x }} {{ 'a' ~ 1 + 2 if false else 'a' ~ 3 }}", {}),
    ("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ 2 >= 2 > 1 }}", {}),
    ("{{ 'l' in s }} {{ 'x' not in s }} {{ 3 in l }} {{ 'b' in d }} {{ not 'b' in d }} {{ 1 in undefined_thing }}", MIX),
    ("{{ 1 and 2 }} {{ 0 or 'x' }} {{ not 0 }} {{ none or false }} {{ '' and 1 }}|{{ e or l }}", MIX),
    ("{{ 'y' if t else 'n' }} {{ 'y' if z }}| {{ 'a' if false else 'b' if false else 'c' }}", MIX),
    ("{{ 1 / 0 }}", {}), ("{{ 'a' + 1 }}", {}), ("{{ 1 < 'a' }}", {}), ("{{ none + 'a' }}", {}),
    ("{{ 'content: ' + message.content }}", {"message": {"content": None}}),
    ("{{ '%s is %d (%5.2f|%-4s|%r|%%)' % ('x', 3, 2.5, 'ab', 'q') }} {{ '%s' % 3 }} {{ '%05d|%x' % (42, 255) }}", {}),
    # access and slices
    ("{{ messages[0].role }} {{ messages[-1]['content'] }} {{ messages[1:3]|length }} {{ messages.0.role }}", MESSAGES),
    ("{{ s[1:3] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[:-1] }} {{ s[::2] }} {{ l[::-1] }} {{ l[5:] }} {{ s[4:1:-1] }} {{ l[-2:] }} {{ 'a'[:1] }}", MIX),
    ("{{ u[3] }} {{ u|length }} {{ u[::-1] }} {{ u[-2:] }} {{ u.find('\u754c') }} {{ u|upper }}", MIX),
    ("{{ d.b }} {{ d['A'] }} {{ d.zz }}| {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ l[10] }}|", MIX),
    ("{{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d|list }} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", MIX),
    ("{{ nothing }}|{{ nothing|length }}|{{ nothing is defined }}|{% for x in nothing %}x{% endfor %}|{{ nothing == nothing2 }}|{{ nothing|upper }}", {}),
    ("{{ nothing.attribute }}", {}), ("{{ nothing['x'] }}", {}), ("{{ nothing + 'a' }}", {}),
    ("{{ nothing() }}", {}), ("{{ s.nothing() }}", MIX), ("{{ messages[0].a.b }}", MESSAGES),
    ("{{ nothing|tojson }}", {}), ("{{ nothing|int }}", {}), ("{{ n.x.y }}", MIX),
    ("{{ l.append(4) }}", MIX), ("{{ d.update({'a': 1}) }}", MIX), ("{{ d.pop('b') }}", MIX),
    ("{{ m.items is defined }} {{ m['items'] }} {{ m.update is defined }}", {"m": {"items": 3, "update": 4}}),
    ("{{ l.count(3) }} {{ l.index(2) }}", MIX),
    # statements
    ("{% if n > 10 %}a{% elif n > 5 %}b{% else %}c{% endif %}{% if z %}x{% else %}y{% endif %}", MIX),
    ("{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}-{{ loop.nextitem }} {% endfor %}", MIX),
    ("{% for x in e %}x{% else %}empty{% endfor %}{% for x in l if x > 1 %}{{ x }}/{{ loop.length }} {% else %}no{% endfor %}", MIX),
    ("{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", {}),
    ("{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }}{% if b == 'x' and a == 2 %}{% break %}{% endif %}{% endfor %}.{{ loop.index }}{% endfor %}", {}),
    ("{% for x in [1,1,2] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }} {% endfor %}", {}),
    ("{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", {}),
    ("{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}", {}), ("{% for x in 5 %}{% endfor %}", {}),
    ("{% break %}", {}),
    ("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}", {}),
    ("{% set ns = namespace(n=0, s='') %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.q }}", {}),
    ("{% set d = {'a': 1} %}{% set d.a = 2 %}", {}),
    ("{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set c %}[{{ a }}\n]{% endset %}{{ c }}{% set e | upper | trim %}  hi {% endset %}{{ e }}", {}),
    ("{% filter upper %}abc{{ 'd' }}{% endfilter %} {% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", {}),
    ("{% generation %}text {{ 1 }}{% endgeneration %}", {}),
    ("{% macro f(a, b='x', c=b) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(c=3, a=0) }}{{ f() }}", {}),
    ("{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, k=4) }}", {}),
    ("{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", {}),
    ("{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}", {}),
    ("{% macro w(t) %}<{{ t }}>{{ caller(1) }}</{{ t }}>{% endmacro %}{% call(x) w('b') %}in{{ x }}{% endcall %}", {}),
    ("{% macro down(n) %}{{ n }}{% if n > 0 %},{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}", {}),
    ("{% set g = 1 %}{% macro f() %}{{ g }}{{ s }}{% endmacro %}{% set g = 2 %}{{ f() }}{{ f()|length }}", MIX),
    ("{{ raise_exception('Roles must alternate') }}", {}), ("{{ l|nosuchfilter }}", MIX),
    ("{{ l is nosuchtest }}", MIX), ("{% nosuchtag %}", {}), ("{{ range(1000000)|length }}", {}),
    ("{{ strftime_now('%d %b %Y|%B %A %a %H:%M:%S %j %y %-d %I %p %%') }}", {"now": "2024-02-29T15:04:05"}),
    ("{{ strftime_now('%Y-%m-%d') }}", {"now": "2026-11-15"}),
    ("{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }}", {}),
    # tests
    ("{% for v in [n, f, s, t, z, l, d, q] %}{{ v is defined }}{{ v is undefined }}{{ v is none }}{{ v is boolean }}{{ v is true }}{{ v is false }}{{ v is integer }}{{ v is float }}{{ v is number }}{{ v is string }}{{ v is mapping }}{{ v is iterable }} {% endfor %}", MIX),
    ("{{ s is sequence }} {{ l is sequence }} {{ d is sequence }} {{ n is sequence }} {{ (1,) is sequence }}", MIX),
    ("{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is in [1, 2] }} {{ 1 is not in [1] }} {{ 'a' is equalto 'a' }} {{ 1 is eq 1 }} {{ 2 is gt 1 }} {{ 'a' is lower }} {{ 'A' is upper }} {{ none is sameas none }}", {}),
    ("{{ x is not defined and true }} {{ not x is defined }} {{ 'upper' is filter }} {{ range is callable }} {{ x is defined or 'z' }}", {}),
    # filters
    ("{{ '  a b ' | trim }}|{{ 'xxaxx'|trim('x') }}|{{ 'aBc dE'|upper }}|{{ 'ABC'|lower }}|{{ 'hELLO wORLD'|capitalize }}|{{ \"it's a-b (c\"|title }}|{{ 5|trim }}", {}),
    ("{{ l|join }} {{ l|join(', ') }} {{ people|join('-', attribute='name') }} {{ [1, none, 'a']|join('+') }}", {**MIX, **PEOPLE}),
    ("{{ l|first }} {{ l|last }} {{ e|first }}| {{ s|first }} {{ l|length }} {{ d|count }} {{ s|list }} {{ l|sum }} {{ l|min }} {{ l|max }} {{ e|max }}|", MIX),
    ("{{ messages|tojson }}", MESSAGES), ("{{ messages[2]|tojson(indent=2) }}", MESSAGES),
    ("{{ {'b': [], 'a': {}, 'c': '\u00e9\\n\\x01\\x7f/', 1: 1e20}|tojson }} {{ ['\u00e9\U0001F600']|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ [1, 2]|tojson(separators=(',', ':')) }} {{ (1, none, true)|tojson }}", {}),
    ("{{ {'a': [1, {'b': 2}], 'e': [], 'f': {}}|tojson(indent=4) }}", {}),
    ("{{ nope|default('d') }} {{ none|default('d') }} {{ ''|default('d', true) }} {{ nope|d }}| {{ s|d('q') }} {{ nope|default(default_value='k') }}", MIX),
    ("{{ people|map(attribute='name')|list }} {{ people|map(attribute='tags', default='-')|list }} {{ ['a', 'b']|map('upper')|list }} {{ ['ab', 'cb']|map('replace', 'b', 'x')|join }}", PEOPLE),
    ("{{ [0, 1, 2, '']|select|list }} {{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [1, 2, 3]|select('gt', 1)|list }} {{ [1, 2]|select('==', 2)|list }}", {}),
    ("{{ people|selectattr('age', 'equalto', 30)|map(attribute='name')|list }} {{ people|rejectattr('tags')|map(attribute='name')|list }} {{ people|selectattr('tags', 'defined')|list|length }}", PEOPLE),
    ("{{ 'aXbX'|replace('X', '-') }} {{ 'aaaa'|replace('a', 'b', 2) }} {{ 123|replace(2, 'x') }} {{ 'ab'|replace('', '-') }}", {}),
    ("{{ '3'|int }} {{ '3.7'|int }} {{ 'x'|int }} {{ 'x'|int(-1) }} {{ 3.9|int }} {{ '0x1f'|int(base=16) }} {{ '2.5'|float }} {{ 'q'|float(1.5) }} {{ none|int }} {{ true|int }} {{ 3|string + 'x' }}", {}),
    ("{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.1|round(0, 'ceil') }} {{ 2.19|round(1, 'floor') }} {{ 42.55|round|int }} {{ 7|round }} {{ -3|abs }} {{ -2.5|abs }}", {}),
    ("{{ [3, 1, 2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ [1, 3, 2]|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(true, attribute='age')|map(attribute='name')|list }}", PEOPLE),
    ("{{ [1, 'a']|sort }}", {}),
    ("{{ ['a', 'A', 'b']|unique|list }} {{ [1, 2, 1]|unique|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ 'abc'|reverse }} {{ [1, 2]|reverse|list }}", PEOPLE),
    ("{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ 'a\n'|indent }}", {}),
    ("{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(by='value', reverse=true) }} {{ d|items|list }} {{ nope|items|list }}", MIX),
    ("{{ [1, 2, 3]|batch(2)|list }} {{ [1, 2, 3]|batch(2, 0)|list }} {{ people|sum(attribute='age') }} {{ people|max(attribute='age') }} {{ 'a b_c d'|wordcount }}", PEOPLE),
    ("{{ '<a href=\"x\">&\\'</a>'|e }} {{ '<b>'|safe }} {{ '<b>'|escape|length }} {{ '%s-%s'|format(1, 'a') }}", {}),
    ("{{ -1|abs }} {{ 'a'|upper ~ 'b' }} {{ [1, 2]|length + 1 }} {{ 'x'|default('y')|upper is upper }} {{ l|length > 2 and 'many' }}", MIX),
    ("{{ none|map('upper')|list }} {{ false|select|list }} {{ nope is sequence }} {{ true|round }} {{ 'a' % [1] }}", {}),
    ("{% raw +%}x{% endraw %}", {}), ("{{ 0.0 ** -1 }}", {}), ("{{ n[1:] }}", MIX),
    # string methods
    ("{{ '  a '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xyaxy'.strip('xy') }}|{{ '\\n\\na\\n'.lstrip('\\n') }}|{{ '\u00a0a\u3000'.strip() }}", {}),
    ("{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'a b c'.split(none, 1) }} {{ 'x</think>y'.split('</think>')[-1] }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a-b'.split(sep='-') }}", {}),
    ("{{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'kv'.partition('=') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}", {}),
    ("{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abc'.find('z') }} {{ 'aXa'.replace('a', 'b', 1) }} {{ 'abab'.count('ab') }} {{ 'abc'.index('c') }}", {}),
    ("{{ 'aB'.upper() }} {{ 'aB'.lower() }} {{ \"it's a\".title() }} {{ 'hELLO'.capitalize() }} {{ ', '.join(['a', 'b']) }} {{ '{} {1} {x} {{}}'.format('a', 'b', x=1) if false else '{} {} {x} {{}}'.format('a', 'b', x=1) }} {{ '{:.2f}|{:>5}|{:<4}|{:03d}'.format(2.5, 'ab', 'c', 7) }}", {}),
    ("{{ '12'.isdigit() }} {{ '1a'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ ''.isdigit() }}", {}),
    ("{{ ','.join([1, 2]) }}", {}), ("{{ 'a'.split('') }}", {}), ("{{ 'abc'.index('z') }}", {}),
    ("{{ 'stra\u00dfe \u00e9t\u00e9 \u03b1\u03b2 \u043f\u0440\u0438'|upper }} {{ '\u00c9T\u00c9 \u0391\u0392 \u041f'|lower }} {{ '\u00e9t\u00e9 \u00e0'|title }}", {}),
    # a whole chat
    ("{{ bos_token }}{% for m in messages %}\n{%- if m.role == 'assistant' and m.tool_calls is defined %}\n<call>{% for c in m.tool_calls %}{{ c.function.name }}: {{ c.function.arguments | tojson }}{% endfor %}</call>\n{% else %}\n<{{ m['role'] }}>{{ m['content'] | trim }}</{{ m['role'] }}>\n{% endif %}\n{% endfor %}\n{% if add_generation_prompt %}<assistant>{% endif %}", MESSAGES),
]


def render(template, variables):
    variables = copy.deepcopy(variables)  # some filters change a list they are given
    try:
        return {"text": make_environment(variables).from_string(template).render(**variables)}
    except Exception as error:  # whatever Python raises is an error of the template
        return {"error": True, "message": str(error)}


def main():
    cases = [{"template": t, "variables": v, **render(t, v)} for t, v in CASES]
    for case in cases:
        case.pop("message", None)  # ours are worded otherwise
    json.dump(cases, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
