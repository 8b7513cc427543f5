#!/usr/bin/env python3
"""Writes small graphs in binary form (compiler/binary.h) as seeds of its fuzzer.

Usage: make_graph_seeds.py [FOLDER]      default: tests/data/fuzz/compiler_binary_fuzz
"""
import os
import struct
import sys

F32, F64, U32, I64, DTYPE, DIMS, LIST, REALS, TEXT, GRAPH = range(10)
INPUT, WEIGHT, CONSTANT, STATE, EXPERTS, NODE = 0, 1, 2, 3, 4, 255


def u32(value):
    return struct.pack("<I", value)


def i64(value):
    return struct.pack("<q", value)


def text(value):
    data = value.encode()
    return u32(len(data)) + data


def declared(kind, name, dtype, dims, offset=None):
    out = bytes([kind]) + text(name) + text(dtype) + bytes([len(dims)]) + b"".join(map(i64, dims))
    return out if offset is None else out + struct.pack("<Q", offset)


def attr(name, kind, value):
    body = {
        U32: lambda: u32(value),
        I64: lambda: i64(value),
        DIMS: lambda: u32(len(value)) + b"".join(map(i64, value)),
        GRAPH: lambda: value,
    }[kind]()
    return text(name) + bytes([kind]) + body


def node(op, inputs, results=1, attrs=(), symbols=()):
    out = bytes([NODE]) + text(op) + text(op)
    out += u32(len(inputs)) + b"".join(map(u32, inputs)) + u32(results)
    out += u32(len(attrs)) + b"".join(attrs) + u32(len(symbols))
    return out + b"".join(text(a) + u32(i) + u32(s) for a, i, s in symbols)


def graph(name, items, outputs, symbols=()):
    out = text(name) + u32(len(symbols)) + b"".join(text(n) + i64(s) for n, s in symbols)
    out += u32(len(items)) + b"".join(items)
    return out + u32(len(outputs)) + b"".join(text(n) + u32(v) for n, v in outputs)


def padded(data):
    return data + bytes(-len(data) % 64)


def file(structure, constants=()):
    structure, data = padded(structure), b"".join(map(padded, constants))
    begin = 64 + len(structure)
    header = b"SLGRAPH\n" + struct.pack("<IIQQ", 1, 0, begin + len(data), begin)
    return padded(header) + structure + data


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/data/fuzz/compiler_binary_fuzz"
    os.makedirs(folder, exist_ok=True)
    body = graph("b", [declared(INPUT, "c", "f32", [3]), declared(INPUT, "x", "f32", [3]),
                       node("add", [1, 2])], [("c", 3), ("y", 2)])
    seeds = {
        "plain": file(graph("g", [declared(INPUT, "x", "f32", [2]), node("neg", [1])], [("y", 2)])),
        "constant": file(graph("g", [declared(INPUT, "x", "f32", [2]),
                                     declared(CONSTANT, "k", "f32", [2], 0), node("mul", [1, 2])],
                               [("y", 3)]), [struct.pack("<2f", 1, 2)]),
        "symbol": file(graph("g", [declared(INPUT, "x", "f32", [-1, 4]),
                                   node("reshape", [1], attrs=[attr("shape", DIMS, [4, 3])],
                                        symbols=[("shape", 1, 0)])], [("y", 2)], [("B", 3)])),
        "scan": file(graph("g", [declared(INPUT, "c", "f32", [3]), declared(INPUT, "x", "f32", [5, 3]),
                                 node("scan", [1, 2], 2, [attr("body", GRAPH, body), attr("carries", U32, 1)])],
                           [("c", 3), ("y", 4)])),
    }
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)


main()
