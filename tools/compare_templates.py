#!/usr/bin/env python3
"""Compares the chat template interpreter with Jinja2 on random snippets.

    compare_templates.py BENCH [COUNT [SEED]]

BENCH is the program built from engine/text/template_bench.c.  Both must give the same text, or both an
error.  Needs the jinja2 package; the environment is that of make_template_fixtures.py."""
import json
import random
import struct
import subprocess
import sys
import warnings

from make_template_fixtures import MESSAGES, MIX, PEOPLE, render

VARIABLES = {**MESSAGES, **PEOPLE, **MIX, "now": "2024-02-29T15:04:05",
             "tools": [{"type": "function", "function": {"name": "get_weather", "description": "Weather <b>now</b>",
                        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["a", "b"]},
                                       "days": {"type": ["integer", "null"]}}, "required": ["city"]}}}]}
SCALARS = ["n", "f", "s", "t", "z", "u", "nope", "1", "0", "-3", "2.5", "'ab'", "''", "'a,b c'", "'  x '", "true", "none", "10", "'12'"]
LISTS = ["l", "e", "[1, 'a', none]", "people", "messages", "[3, 1, 2]", "range(4)|list", "['b', 'A', 'c']", "d.items()|list", "tools", "(1, 2)", "[[1, 2], [3]]"]
DICTS = ["d", "people[0]", "messages[1]", "{'a': 1, 'b': [1, 2]}", "{}", "tools[0].function", "tools[0]['function']['parameters']"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "string", "int", "float", "abs", "round", "first", "last",
           "reverse|list", "sort", "unique|list", "join(',')", "join", "tojson", "tojson(indent=2)", "default('d')", "default('d', true)", "replace('a', 'b')",
           "safe", "items|list", "sum", "min", "max", "map('upper')|list", "map(attribute='name')|list", "select|list", "reject('none')|list",
           "selectattr('name')|list", "selectattr('role', 'equalto', 'user')|list", "rejectattr('age', 'gt', 26)|list", "wordcount", "indent(2)",
           "dictsort", "batch(2)|list", "center(9)", "attr('name')", "format(1)", "count",
           "string|length", "map('string')|join('+')", "sort(reverse=true)", "sort(attribute='name')|map(attribute='name')|join", "map('int', default=3)|list"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "odd", "even",
         "true", "false", "callable", "lower", "upper", "divisibleby(2)", "in [1, 2]", "eq(1)", "ne 1", "gt(1)", "lt 3", "sameas(none)", "escaped", "ge(2)"]
METHODS = ["strip()", "lstrip()", "rstrip('l')", "split()", "split(',')", "split(' ', 1)", "rsplit(',', 1)", "upper()", "lower()", "title()", "capitalize()",
           "swapcase()", "zfill(5)", "center(8, '*')", "ljust(6)", "rjust(6, '.')", "startswith('a')", "startswith(('H', 'a'))", "endswith('b')",
           "find('l')", "find('l', 3)", "rfind('l', 0, 3)", "count('l')", "index('b')", "rindex('l')", "replace('l', 'L')", "replace('l', 'L', 1)",
           "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "casefold()", 
           "splitlines()", "splitlines(true)", "partition(',')", "rpartition(' ')", "removeprefix('He')", "removesuffix('o')", "join(['a', 'b'])",
           "format(1, x=2)", "isnumeric()", "isdecimal()", "isascii()",
           "get('a')", "get('zz', 5)", "copy()", "count(1)", "index(1)", "append(1)", "pop()", "items()|list", "keys()|list"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


# What Python shows of objects that no template shows on purpose.
OPAQUE = ["0x", "dict_items", "dict_keys", "dict_values", "range(", "<generator", "<built-in", "<function", "<method", "<class", "Namespace", "<bound"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def choose(self, *lists):
        return self.random.choice(self.random.choice(lists))

    def expression(self, depth=3):
        r = self.random
        kind = r.randrange(14) if depth else 0
        if kind < 3:
            return self.choose(SCALARS, SCALARS, LISTS, DICTS)
        if kind < 6:
            return "%s|%s" % (self.operand(depth), r.choice(FILTERS))
        if kind == 6:
            return "%s is %s%s" % (self.operand(depth), r.choice(("", "not ")), r.choice(TESTS))
        if kind == 7:
            return "%s.%s" % (self.operand(depth), r.choice(METHODS))
        if kind == 8:
            return "%s[%s]" % (self.operand(depth), r.choice(("0", "-1", "1:", ":2", "::-1", "1:3", "'a'", "'name'", "n", "::2", "-2:")))
        if kind < 11:
            return "%s %s %s" % (self.operand(depth), r.choice(OPERATORS), self.operand(depth))
        if kind == 11:
            return "(%s if %s else %s)" % tuple(self.expression(depth - 1) for _ in range(3))
        if kind == 12:
            return "[%s, %s]" % (self.expression(depth - 1), self.expression(depth - 1))
        return "(not %s)" % self.operand(depth)

    def operand(self, depth):
        text = self.expression(depth - 1)
        return text if text.isidentifier() else "(%s)" % text

    def statement(self, depth=2):
        r = self.random
        kind = r.randrange(13) if depth else r.randrange(3)
        space = r.choice(("", "", " ", "\n", "  \n ", "x"))
        opening, closing = r.choice((("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}"), ("{%+", "%}"), ("{%", "+%}")))

        def tag(text):
            return "%s %s %s" % (opening, text, closing)
        body = lambda: "".join(self.statement(depth - 1) for _ in range(r.randint(1, 2)))  # noqa: E731
        if kind < 2:
            return space + "{{ %s }}" % self.expression(2)
        if kind == 2:
            return space + tag("set %s = %s" % (r.choice("xyab"), self.expression(2)))
        if kind == 3:
            return space + tag("if " + self.expression(2)) + body() + tag("else") + body() + tag("endif") + space
        if kind < 6:
            extra = r.choice(("", "", " if i", " if loop is undefined"))
            inner = r.choice(("{{ i }}", "{{ loop.index }}{{ loop.last }}", "{% if loop.index > 2 %}{% break %}{% endif %}", "{{ loop.cycle('a', 'b') }}",
                              "{% if loop.first %}{% continue %}{% endif %}{{ i }}", "{{ loop.revindex0 }}{{ loop.previtem }}", "{{ loop.changed(i) }}", "{{ loop.depth }}"))
            return space + tag("for i in %s%s" % (self.choose(LISTS, LISTS, DICTS, SCALARS), extra)) + inner + body() + tag("else") + body() + tag("endfor")
        if kind == 6:
            return tag("for k, v in %s.items()" % r.choice(DICTS)) + "{{ k }}={{ v }}" + body() + tag("endfor") + space
        if kind == 7:
            name = r.choice("fg")
            return tag("macro %s(a, b=%s)" % (name, self.expression(1))) + "[{{ a }}{{ b }}]" + body() + tag("endmacro") + "{{ %s(%s) }}" % (
                name, r.choice(("1", "1, 2", "b=3", "a=n", "", "*[1, 2]", "**{'a': 4}")))
        if kind == 8:
            return tag("set ns = namespace(v=%s)" % self.expression(1)) + tag("for i in l") + tag("set ns.v = i") + tag("endfor") + "{{ ns.v }}"
        if kind == 9:
            return tag("set q") + body() + tag("endset") + "{{ q|length }}{{ q }}"
        if kind == 10:
            return tag("filter upper") + body() + tag("endfilter")
        if kind == 11:
            return tag("with w = %s" % self.expression(1)) + "{{ w }}" + body() + tag("endwith")
        return tag("for i in [[1, [2]], [3, []]] recursive") + "{{ i[0] if i is not number else i }}" + r.choice(
            ("{% if i is iterable %}({{ loop(i[1]) }}){% endif %}", "{{ loop.depth }}{{ loop.depth0 }}")) + tag("endfor")

    def template(self):
        if self.random.random() < 0.5:
            return "{{ %s }}" % self.expression(4)
        return "".join(self.statement() for _ in range(self.random.randint(1, 4)))


def ours_of(program, templates):
    variables = json.dumps(VARIABLES).encode()
    sent = b"".join(struct.pack("<I", len(t)) + t + struct.pack("<I", len(variables)) + variables for t in (t.encode() for t in templates))
    done = subprocess.run([program], input=sent, capture_output=True, check=True)
    at, answers = 0, []
    for _ in templates:
        good, size = struct.unpack_from("<II", done.stdout, at)
        answers.append((good, done.stdout[at + 8:at + 8 + size].decode()))
        at += 8 + size
    return answers


def main():
    warnings.simplefilter("ignore")
    program, *rest = sys.argv[1:]
    count, seed = (int(rest[0]) if rest else 20000), (int(rest[1]) if len(rest) > 1 else 1)
    maker = Maker(seed)
    templates = [maker.template() for _ in range(count)]
    different, texts = [], 0
    for template, (good, text) in zip(templates, ours_of(program, templates)):
        wanted = render(template, VARIABLES)
        texts += "text" in wanted
        if bool(good) == ("text" in wanted) and (not good or text == wanted["text"]) or any(sign in wanted.get("text", "") for sign in OPAQUE):
            continue
        different.append((template, wanted.get("text"), text, wanted.get("message")))
    different.sort(key=lambda row: len(row[0]))
    for row in different[:int(rest[2]) if len(rest) > 2 else 10]:
        print("template: %r\n  wanted: %r\n  ours:   %r\n  (%s)" % row)
    print("%d snippets, %d of them with a text, %d differ" % (count, texts, len(different)))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
