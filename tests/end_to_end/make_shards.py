#!/usr/bin/env python3
"""make_shards.py - Divides the one file of a Hugging Face folder.

    make_shards.py FOLDER COUNT OUT

Writes COUNT shards, their index and config.json to OUT.  Fails if there is no such folder.
"""
import json
import os
import shutil
import struct
import sys

folder, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if not os.path.exists(f"{folder}/model.safetensors"):
    sys.exit(f"skipped: {folder} is not here")
data = open(f"{folder}/model.safetensors", "rb").read()
start = 8 + struct.unpack("<Q", data[:8])[0]
tensors = {name: t for name, t in json.loads(data[8:start]).items() if name != "__metadata__"}
places = {}
for shard in range(count):
    name, header, body = f"model-{shard + 1:05d}-of-{count:05d}.safetensors", {}, b""
    for tensor in sorted(tensors)[shard::count]:
        first, end = tensors[tensor]["data_offsets"]
        header[tensor] = {**tensors[tensor], "data_offsets": [len(body), len(body) + end - first]}
        body += data[start + first:start + end]
        places[tensor] = name
    text = json.dumps(header).encode()
    open(f"{out}/{name}", "wb").write(struct.pack("<Q", len(text)) + text + body)
json.dump({"weight_map": places}, open(f"{out}/model.safetensors.index.json", "w"))
shutil.copy(f"{folder}/config.json", out)
