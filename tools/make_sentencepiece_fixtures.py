#!/usr/bin/env python3
"""Writes tests/data/tokenizer/sentencepiece.json and sentencepiece_vectors.json with Hugging Face's tokenizers.

    python3 tools/make_sentencepiece_fixtures.py TEXT_FILE

A small vocabulary over characters, as Llama 2 and Mixtral have them, learnt from this repository's prose
(TEXT_FILE), and what becomes of texts in each of the ways published files put spaces and bytes."""
import copy
import json
import random
import sys

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

FOLDER = "tests/data/tokenizer/"
TEXTS = ["Hello world", " Hello", "  two  spaces ", "a", "", "\n", "line\nbreak\n\n", "\u00e9t\u00e9 na\u00efve", "\u4f60\u597d", "\U0001F600 smile",
         "<s>start</s>end", "x <tool> y", "<s> <s>", "\u2581already", "tab\tthere", "e\u0301", "the cat's 123,456", "   ", "<0x41>",
         "word<mask>word <mask> word", "A\u0000B", "\u2581", " \u2581 ", "stream of the experts in memory, and the rest."]


def vocabulary(text):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % byte for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=640, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(text.splitlines(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model


def added(name, id, **flags):
    return {"id": id, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def base(model):
    vocab = dict(model["vocab"])
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
             "vocab": vocab, "merges": model["merges"]}
    count = len(vocab)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added("<unk>", vocab["<unk>"]), added("<s>", vocab["<s>"]), added("</s>", vocab["</s>"]),
                         added("<tool>", count, special=False, normalized=True),
                         added("<mask>", count + 1, lstrip=True, rstrip=True)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": model,
    }


def metaspace(scheme, split):
    step = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
    return {"normalizer": None, "pre_tokenizer": step}


VARIANTS = [
    ("llama2", {}),
    ("first", metaspace("first", False)), ("always", metaspace("always", True)), ("never", metaspace("never", True)),
    ("first_split", metaspace("first", True)),
    ("no_bytes", {"model": {"byte_fallback": False}}),
    ("no_bytes_no_fuse", {"model": {"byte_fallback": False, "fuse_unk": False}}),
    ("no_unknown", {"model": {"byte_fallback": False, "unk_token": None}}),
    ("whole_words", {**metaspace("always", True), "model": {"ignore_merges": True}}),
    ("regex", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "NFC"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}}),
]


def changed(root, change):
    root = copy.deepcopy(root)
    for key, value in change.items():
        if key == "model":
            root["model"].update(value)
        else:
            root[key] = value
    return root


def random_text(source):
    pieces = ["the", " of", "and ", "  ", "\n", "\u2581", "\u00e9", "\u4e16", "\U0001F680", "<s>", "<tool>", "<mask>", " memory", "x", "12", "."]
    return "".join(source.choice(pieces) for _ in range(source.randint(1, 12)))


def main():
    source = random.Random(5)
    root = base(vocabulary(open(sys.argv[1], encoding="utf8").read()))
    texts = TEXTS + [random_text(source) for _ in range(40)]
    vectors = []
    for name, change in VARIANTS:
        tokenizer = Tokenizer.from_str(json.dumps(changed(root, change)))
        rows = []
        for text in texts:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        vectors.append({"name": name, "change": change, "encode": rows})
    with open(FOLDER + "sentencepiece.json", "w", encoding="utf8") as file:
        json.dump(root, file, ensure_ascii=False, separators=(",", ":"))
    with open(FOLDER + "sentencepiece_vectors.json", "w", encoding="utf8") as file:
        json.dump(vectors, file, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
