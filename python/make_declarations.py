#!/usr/bin/env python3
"""Makes sluice/_declarations.py, the ctypes form of the public headers.

Usage: make_declarations.py HEADERS OUT.py       HEADERS: the folder include/sluice
       make_declarations.py HEADERS --check-c    a C program that prints the size of every struct
       and
                                                 the offset of every field, as `layout` below does

The headers have one style, which tools/check_headers.py keeps; what does not fit it is an error
here.
"""

import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

NUMBERS = {
    "int": "c_int",
    "char": "c_char",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    "int32_t": "c_int32",
    "uint32_t": "c_uint32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
    "uint8_t": "c_uint8",
    "int8_t": "c_int8",
    "uint16_t": "c_uint16",
    "int16_t": "c_int16",
}
VALUES = {"INT32_MIN": str(-(2**31))}


class Declaration(NamedTuple):
    """One declared name: its type without stars, the number of stars, and its array length."""

    name: str
    base: str
    stars: int
    const: bool
    length: str = ""
    function: str = ""  # the parameters, of a pointer to a function


class Headers:
    """Everything that the headers declare, in their order."""

    def __init__(self, folder: Path) -> None:
        self.constants: List[Tuple[str, str]] = []
        self.aliases: List[Tuple[str, str]] = []
        self.callbacks: List[Tuple[str, str, str]] = []
        self.structs: List[Tuple[str, List[Declaration]]] = []
        self.functions: List[Tuple[str, Declaration, List[Declaration]]] = []
        self.opaque: List[str] = []
        self.enums: List[str] = []
        paths = sorted(folder.glob("*.h"))
        self.names = [path.name for path in paths]
        texts = {path.name: path.read_text() for path in paths}
        for name in sorted(texts, key=lambda n: self._depth(n, texts)):
            self._read(texts[name])

    @staticmethod
    def _depth(name: str, texts: Dict[str, str]) -> Tuple[int, str]:
        """How many headers come before it, so that types are declared before they are used."""
        seen, waiting = set(), [name]
        while waiting:
            for other in re.findall(r'#include "sluice/(\w+\.h)"', texts[waiting.pop()]):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return len(seen), name

    def _read(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        for name, value in re.findall(r"^#define (SL_\w+) +(\S.*?) *$", text, re.M):
            if not value.startswith("__"):
                self.constants.append((name, VALUES.get(value, value)))
        text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M | re.S).replace('extern "C" {', "")
        for statement in self._statements(text):
            self._take(statement)

    @staticmethod
    def _statements(text: str) -> List[str]:
        found, depth, start = [], 0, 0
        for at, letter in enumerate(text):
            depth += (letter == "{") - (letter == "}")
            if letter == ";" and depth <= 0:
                found.append(" ".join(text[start:at].replace("}", "} ").split()).strip("} "))
                start = at + 1
        return [statement for statement in found if statement]

    def _take(self, text: str) -> None:
        match = re.match(r"typedef struct (\w+) (\w+)$", text)
        if match:
            self.opaque.append(match.group(2))
            return
        match = re.match(r"typedef struct(?: \w+)? \{(.*)\} (\w+)$", text)
        if match:
            fields = [
                d for part in match.group(1).split(";") if part.strip() for d in declared(part)
            ]
            self.structs.append((match.group(2), fields))
            return
        match = re.match(r"(?:typedef )?enum \{(.*?)(?:\} (\w+))?$", text)
        if match:
            self._take_enum(match.group(1), match.group(2))
            return
        match = re.match(r"typedef (.*?)(\w+)\((.*)\)$", text)
        if match:
            self.callbacks.append((match.group(2), match.group(1), match.group(3)))
            return
        match = re.match(r"typedef (\w+) (\w+)$", text)
        if match:
            self.aliases.append((match.group(2), match.group(1)))
            return
        match = re.match(r"(?:SL_API )(?:SL_CHECKED )?(.*?)(\w+)\((.*)\)$", text)
        if not match:
            raise SystemExit(f"make_declarations: cannot read '{text}'")
        result = declared(match.group(1) + "result")[0]
        self.functions.append((match.group(2), result, parameters(match.group(3))))

    def _take_enum(self, body: str, name: str) -> None:
        value = -1
        for item in filter(None, (part.strip() for part in body.split(","))):
            word, _, given = item.partition("=")
            value = int(given) if given else value + 1
            self.constants.append((word.strip(), str(value)))
        if name:
            self.enums.append(name)

    # ---- as ctypes ----

    def ctype(self, d: Declaration, counted: bool = False) -> str:
        """counted: the text has a length of its own and no NUL after it."""
        if d.function:
            return self._callback(d.base, d.stars, d.function)
        callbacks = {name for name, _, _ in self.callbacks}
        if d.base in callbacks:
            return d.base
        if d.base == "char" and d.stars == 1 and d.const and not counted:
            return "c.c_char_p"
        structs = {name for name, _ in self.structs}
        if d.stars == 1 and d.base in structs:
            return f"c.POINTER({d.base})"
        if d.stars:
            return "c.c_void_p"
        if d.base in self.enums:
            plain = "c.c_int"
        elif d.base in structs or d.base in dict(self.aliases):
            plain = d.base
        elif d.base in NUMBERS:
            plain = "c." + NUMBERS[d.base]
        else:
            raise SystemExit(f"make_declarations: '{d.name}': unknown type '{d.base}'")
        return f"{plain} * {d.length}" if d.length else plain

    def _callback(self, base: str, stars: int, arguments: str) -> str:
        result = (
            "None"
            if base == "void" and not stars
            else self.ctype(Declaration("", base, stars, False))
        )
        return (
            f"c.CFUNCTYPE({', '.join([result] + [self.ctype(p) for p in parameters(arguments)])})"
        )

    def fields(self, fields: List[Declaration]) -> List[Tuple[str, str]]:
        """A text before `size_t bytes` has that length."""
        after = [(d.base, d.name) for d in fields[1:]] + [("", "")]
        return [
            (d.name, self.ctype(d, counted=following == ("size_t", "bytes")))
            for d, following in zip(fields, after)
        ]

    def python(self) -> str:
        lines = [
            '"""The public headers of sluice as ctypes; made by make_declarations.py."""',
            "import ctypes as c",
            "from typing import Any, Dict, List, Tuple",
            "",
        ]
        lines += [f"{name} = {self._constant(value)}" for name, value in self.constants] + [""]
        lines += [f"{name} = c.{NUMBERS[of]}" for name, of in self.aliases]
        pending = list(self.callbacks)
        for name, fields in self.structs:
            for callback in list(
                pending
            ):  # a callback type is made before the first struct that has it
                if any(f.base == callback[0] for f in fields):
                    lines += self._callback_line(callback)
                    pending.remove(callback)
            lines += ["", "", f"class {name}(c.Structure):", "    _fields_ = ["]
            lines += [f'        ("{field}", {of}),' for field, of in self.fields(fields)] + [
                "    ]",
                "",
            ]
        for callback in pending:
            lines += self._callback_line(callback)
        lines += [
            "",
            "# name: (result, parameters)",
            "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {",
        ]
        for name, result, given in self.functions:
            counted = any(p.name.startswith("out_bytes") for p in given)
            of = (
                "None"
                if (result.base, result.stars) == ("void", 0)
                else self.ctype(result, counted)
            )
            lines.append(f'    "{name}": ({of}, [{", ".join(self.ctype(p) for p in given)}]),')
        return "\n".join(lines + ["}", ""])

    def _callback_line(self, callback: Tuple[str, str, str]) -> List[str]:
        name, result, arguments = callback
        d = declared(result + "result")[0]
        return [f"{name} = {self._callback(d.base, d.stars, arguments)}"]

    def _constant(self, value: str) -> str:
        return f'"{value[1:-1]}"' if value.startswith('"') else value.strip("()")

    def c_program(self) -> str:
        """Prints what `layout` says of the generated module."""
        lines = ["#include <stdio.h>"] + [f'#include "sluice/{name}"' for name in self.names]
        lines.append("int main(void) {")
        for name, fields in self.structs:
            lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
            lines += [
                f'    printf("{name}.{d.name} %zu\\n", offsetof({name}, {d.name}));' for d in fields
            ]
        return "\n".join(lines + ["    return 0;", "}", ""])


def declared(text: str) -> List[Declaration]:
    """`const char *a, *b` or `double c[2]` or `int (*f)(void *ctx)`, each name with its type."""
    text = " ".join(text.split())
    match = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", text)
    if match:
        before = declared(match.group(1) + "result")[0]
        return [
            Declaration(match.group(2), before.base, before.stars, False, function=match.group(3))
        ]
    match = re.match(r"(const )?(?:struct )?(\w+)(.*)$", text)
    if not match:
        raise SystemExit(f"make_declarations: cannot read '{text}'")
    found = []
    for part in match.group(3).split(","):
        one = re.match(r"^ *((?:\*|const|\s)*)(\w+)(?:\[(\w*)\])?$", part)
        if not one:
            raise SystemExit(f"make_declarations: cannot read '{text}'")
        found.append(
            Declaration(
                one.group(2),
                match.group(2),
                one.group(1).count("*"),
                bool(match.group(1)),
                one.group(3) or "",
            )
        )
    return found


def parameters(text: str) -> List[Declaration]:
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [declared(part)[0] for part in parts if part and part != "void"]


def main() -> None:
    headers = Headers(Path(sys.argv[1]))
    if sys.argv[2] == "--check-c":
        print(headers.c_program())
    else:
        Path(sys.argv[2]).write_text(headers.python())


if __name__ == "__main__":
    main()
