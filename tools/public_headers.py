"""public_headers.py - What include/sluice declares, for the checks of headers, symbols and ABI."""
import os
import re
from pathlib import Path

FOLDER = Path(os.environ.get("SLUICE_HEADERS", "include/sluice"))  # tests/abi checks changed copies
# Covered by the promise of graph.h; the others may change.
STABLE = ["status.h", "sluice.h", "graph.h", "tensors.h"]
EXPERIMENTAL = ["executor.h", "experimental.h", "direct.h", "experts.h", "weights.h", "inspect.h", "messages.h",
                "sampling.h", "batch.h", "grammar.h", "sessions.h", "model_files.h"]


def text_of(name):
    return (FOLDER / name).read_text()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def declarations(name):
    """What a header declares outside of structs, each on one line without its semicolon."""
    text = without_comments(text_of(name))
    text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M | re.S)
    text = text.replace('extern "C" {', "")
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth <= 0:
            found.append(" ".join(text[start:at].replace("}", "} ").split()))
            start = at + 1
    return found


def functions(name):
    """(name, declaration) of each function."""
    found = []
    for line in declarations(name):
        match = re.match(r"(?!typedef)[^({]*?\b(\w+)\(", line)
        if match:
            found.append((match.group(1), line))
    return found


def structs(name):
    """(name, body, what its comments say) of each struct that is not opaque."""
    text = text_of(name)
    return [(m.group(2), m.group(1), m.group(3))
            for m in re.finditer(r"^typedef struct(?: \w+)? \{(.*?)^\} (\w+);([^\n]*)", text, re.S | re.M)]
