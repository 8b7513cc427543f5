#!/usr/bin/env python3
"""Writes tests/data/grammar: schemas with instances that jsonschema calls valid or not, and regular
expressions with texts that Python's re finds a match in or not.

grammar_bench compares real schemas, which are no part of the project.
"""
import json
import random
import re

import jsonschema

OUT = "tests/data/grammar"

SCHEMAS = [
    ({"type": "integer", "minimum": -5, "maximum": 120}, [-6, -5, 0, 7, 120, 121, 1200, 1.5]),
    ({"type": "number", "exclusiveMinimum": -1.5, "maximum": 2.25}, [-1.5, -1.4, 0, 2.25, 2.26, 3, -2]),
    ({"type": "number", "minimum": 0}, [0, 1, 0.5, -1, -0.5, 1e30]),
    ({"type": "number", "exclusiveMaximum": 0}, [0, 1, -0.5, -1]),
    ({"type": "number", "multipleOf": 0.25}, [0, 0.25, 0.3, -1.75, 12, 12.125]),
    ({"type": "integer", "multipleOf": 7, "minimum": 100, "maximum": 130}, [98, 105, 112, 119, 126, 133, 110]),
    ({"type": "string", "minLength": 2, "maxLength": 4}, ["a", "ab", "äöüß", "abcde", "日本", "x\ny", "", "\"\\"]),
    ({"type": "string", "pattern": "^[a-z]+-[0-9]{2,3}$"}, ["ab-12", "ab-1", "-12", "ab-1234", "Ab-12", "ab-123"]),
    ({"type": "string", "pattern": "b+"}, ["abc", "ac", "", "bb", "a\nb"]),
    ({"type": "string", "pattern": "^(?=.*[0-9])(?!.*x)[a-z0-9x]{3,}$"}, ["ab1", "abc", "a1x", "a1"]),
    ({"type": "string", "pattern": "^a|b$"}, ["ax", "xb", "xax", "ab", "x"]),
    ({"type": "string", "minLength": 3, "pattern": "^.*é$", "maxLength": 3}, ["aaé", "é", "aaaé", "aéa"]),
    ({"enum": ["red", "green", 3, 2.5, None, True, {"a": [1]}]}, ["red", "blue", 3, 4, 2.5, None, True, False, {"a": [1]}, {"a": [2]}]),
    ({"enum": ["a", "ab", 1, 5], "type": "integer", "maximum": 3}, ["a", 1, 5, 2]),
    ({"const": {"k": ["v", 1.5]}}, [{"k": ["v", 1.5]}, {"k": ["v"]}, {}]),
    ({"enum": [{"a": 1, "b": {"c": None, "d": 2}}, {"a": 1}]}, [{"a": 1, "b": {"c": None, "d": 2}}, {"a": 1}, {"a": 1, "b": {"d": 2}}, {"b": {}}]),
    ({"type": ["string", "null"]}, ["x", None, 1]),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}, "required": ["b"]},
     [{"b": "x"}, {"a": 1, "b": "x"}, {"a": 1}, {"a": "1", "b": "x"}, {"b": "x", "z": 1}, {"a": 1, "z": [], "b": "x", "c": 2}, {}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}, [{}, {"a": 1}, {"a": 1, "b": 2}, {"c": 1}, {"b": 1}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "properties": {"aa": {"type": "string"}}},
     [{"aa": "x"}, {"a": 1}, {"aaa": 1}, {"aa": 1}, {"a": "x"}, {"aa": "x", "q\"": 2}]),
    ({"type": "object", "patternProperties": {"^n_": {"type": "integer"}, "_s$": {"type": "number"}}, "additionalProperties": False},
     [{"n_a": 1}, {"x_s": 1.5}, {"n_s": 1}, {"n_s": 1.5}, {"other": 1}, {}]),
    ({"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}}, [{"abc": 1}, {"d": 1}, {}]),
    ({"type": "object", "minProperties": 1, "maxProperties": 2}, [{}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}]),
    ({"type": "object", "properties": {"x": {}, "y": {}, "z": {}}, "additionalProperties": False, "minProperties": 2},
     [{"x": 1}, {"x": 1, "z": 2}, {"x": 1, "y": 2, "z": 3}, {}]),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "required": ["b", "d"], "maxProperties": 3},
     [{"b": 1, "d": 2}, {"a": 0, "b": 1, "d": 2}, {"a": 0, "b": 1, "c": 2}, {"a": 0, "c": 1, "b": 2, "d": 3}, {"z": 0, "b": 1, "d": 2},
      {"z": 0, "a": 1, "b": 2, "d": 3}, {"d": 1, "c": 0, "b": 2}]),
    ({"type": "object", "properties": {"a": {}, "b": False, "c": {}}, "additionalProperties": False, "minProperties": 2}, [{"a": 1, "c": 2}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"anyOf": [{"properties": {"k": {"const": "x"}, "v": {"type": "integer"}}, "required": ["k", "v"], "additionalProperties": False},
                {"properties": {"k": {"const": "y"}, "w": {"type": "null"}}, "required": ["k"], "additionalProperties": False}], "type": "object"},
     [{"k": "x", "v": 1}, {"k": "y"}, {"k": "y", "w": None}, {"k": "x", "w": None}, {"k": "y", "v": 1}]),
    ({"type": "array", "items": {"properties": {"id": {"type": "integer"}, "tag": {"enum": ["p", "q"]}}, "required": ["id", "tag"]}},
     [[{"id": 1, "tag": "p"}, {"tag": "q", "id": 2}], [{"id": 1}], [{"tag": "p", "id": 1, "more": [{}]}, {"tag": "r", "id": 1}]]),
    ({"type": "object", "required": ["q"], "properties": {"p": {}}}, [{"q": 1}, {"p": 1}, {"p": 1, "q": 2}]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, [[], [1], [1, 2, 3], [1, 2, 3, 4], ["x"]]),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}, [[], ["a"], ["a", 1], ["a", 1, 2], [1]]),
    ({"type": "array", "minItems": 2}, [[], [1], [1, "a"], [[], {}, None]]),
    ({"$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                         "required": ["v"], "additionalProperties": False}}, "$ref": "#/$defs/tree"},
     [{"v": 1}, {"v": 1, "kids": [{"v": 2, "kids": []}]}, {"v": 1, "kids": [{"kids": []}]}, {"kids": []}]),
    ({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}]}, [1, {"a": None}, {"a": 1}, "x"]),
    ({"oneOf": [{"properties": {"t": {"const": "a"}, "v": {"type": "integer"}}, "required": ["t"], "type": "object"},
                {"properties": {"t": {"const": "b"}, "v": {"type": "string"}}, "required": ["t"], "type": "object"}]},
     [{"t": "a", "v": 1}, {"t": "b", "v": "x"}, {"t": "a", "v": "x"}, {"t": "c"}]),
    ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]}, [1, 3, 3.5, 2.5, 4, -7]),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"minimum": 3}}, "required": ["a"]}], "type": "object"},
     [{"a": 3}, {"a": 2}, {"a": 3.5}, {}]),
    ({"not": {"type": "string"}}, [1, "x", None, [], {}]),
    ({"type": "string", "not": {"enum": ["a", "ab"]}}, ["a", "ab", "abc", "", "b"]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a", "b"]}}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {}]),
    ({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["x"]}, "else": {"required": ["y"]},
      "type": "object", "properties": {"k": {}, "x": {}, "y": {}}},
     [{"k": 1, "x": 0}, {"k": 1}, {"k": 2, "y": 0}, {"k": 2, "x": 0}, {"y": 0}]),
    ({"type": "object", "properties": {"c": {}, "n": {}}, "dependentRequired": {"c": ["n"]}}, [{"c": 1}, {"c": 1, "n": 2}, {"n": 1}, {}]),
    ({"type": "string", "format": "date"}, ["2024-02-29", "2023-02-29", "2023-2-1", "1999-12-31", "x"]),
    ({"type": "string", "format": "ipv4"}, ["1.2.3.4", "256.1.1.1", "1.2.3", "255.255.255.255"]),
    ({"type": "string", "format": "uuid"}, ["12345678-1234-1234-1234-123456789abc", "12345678-1234-1234-1234-123456789ab"]),
    (True, [1, "x", None, {"a": [True, -1.5e3]}]),
    ({"type": "object", "properties": {"esc\"\\/ä\n": {"type": "integer"}}, "additionalProperties": False, "required": ["esc\"\\/ä\n"]},
     [{"esc\"\\/ä\n": 1}, {"esc": 1}]),
]

PATTERNS = ["", "a", "abc", "a*", "a+b", "(a|b)*c", "^a", "a$", "^a$", "^$", "[a-c]x", "[^a-c]", "a.c", "a{2}", "a{2,}", "a{1,3}$",
            r"\d+", r"^\w+\s\w+$", r"^(?:ab)+$", r"x?y??z", r"a|b|", "^(a|bc)d?$", r"^[\w.-]+@[\w-]+$", r"^\S+$", r"^[^\s]+$",
            "^(?!a)b?", "^(?=ab).{3}$", "^(?!.*bb).*$", "(^a|b$)c?", r"^\u0061", r"\x62", r"^[\d\-]+$", "^a{0}b", "ä+", "^[à-ü]$", "(a*)*b", r"\.", r"^\(x\)$",
            "^[a-c]{2,4}d*$", "((a|b)(c|d)){2}", "^(a(b(c)?)?)?$"]


def texts(generator):
    out = ["", "a", "b", "abc", "aab", "ab\n", "a\nc", "xyz", "foo bar", "12-34", "ä", "ää", "(x)", "a.b", "me@x-y", "acbd", "abab", "bb", "abd"]
    out += ["".join(generator.choice("abcdxy1 -ä") for _ in range(generator.randrange(1, 6))) for _ in range(25)]
    return out


def backwards(value):
    """The value with the properties of all objects in the other order, which is the same for a schema."""
    if isinstance(value, list):
        return [backwards(item) for item in value]
    if isinstance(value, dict):
        return {key: backwards(item) for key, item in reversed(value.items())}
    return value


def find(pattern, text):
    """re.search with the meaning of ECMAScript: $ is the very end, \\d and \\w are ASCII."""
    pattern = re.sub(r"(?<!\\)\$", r"\\Z", pattern)
    ascii_only = re.sub(r"\\d", "[0-9]", pattern) if "[" not in pattern else pattern.replace(r"\d", "0-9")
    ascii_only = ascii_only.replace(r"[\w", "[A-Za-z0-9_").replace(r"\w", "[A-Za-z0-9_]")
    return re.search(ascii_only, text) is not None


def main():
    generator = random.Random(1)
    with open(OUT + "/schemas.jsonl", "w", encoding="utf-8") as out:
        for schema, values in SCHEMAS:
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            checker = kind(schema, format_checker=jsonschema.FormatChecker())
            tests = {json.dumps(order, ensure_ascii=False): checker.is_valid(v) for v in values for order in (v, backwards(v))}
            out.write(json.dumps({"schema": schema, "tests": list(tests.items())}, ensure_ascii=False, separators=(",", ":")) + "\n")
    with open(OUT + "/patterns.jsonl", "w", encoding="utf-8") as out:
        for pattern in PATTERNS:
            cases = [[t, find(pattern, t)] for t in texts(generator)]
            out.write(json.dumps({"pattern": pattern, "tests": cases}, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
