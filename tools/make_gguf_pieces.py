#!/usr/bin/env python3
"""make_gguf_pieces.py TEXT_FILE... - Writes tests/data/gguf/pieces.json with sentencepiece itself.

A small vocabulary of byte pairs with scores, set up as that of Llama 2 and Mixtral and learnt from this
repository's prose, in the arrays that GGUF files have for it, and the ids that sentencepiece gives texts."""
import io
import json
import random
import sys

import sentencepiece

TEXTS = ["Hello world", " Hello", "  two  spaces ", "a", "\n", "line\nbreak\n\n", "\u00e9t\u00e9 na\u00efve", "\u4f60\u597d",
         "\U0001F600 smile", "tab\tthere", "e\u0301", "the cat's 123,456", "   ", "A\u0001B",
         "stream of the experts in memory, and the rest.", "Weights; weights, WEIGHTS?!", "x=1+2*(3-4)/5"]


def main():
    lines = [line for path in sys.argv[1:] for line in open(path, encoding="utf-8").read().splitlines() if line]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=700, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=0.9995, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kinds = []
    for i in range(processor.get_piece_size()):
        kinds.append(2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 5 if processor.is_unused(i)
                     else 6 if processor.is_byte(i) else 1)
    random.seed(1)
    words = [word for line in lines for word in line.split()]
    texts = TEXTS + [" ".join(random.choices(words, k=random.randint(1, 12))) for _ in range(60)]
    texts += ["".join(random.choices(" \n\taeiou\u00e9\u4e2d\U0001F98A.,09xyz", k=random.randint(1, 20))) for _ in range(60)]
    out = {"tokens": [processor.id_to_piece(i) for i in range(processor.get_piece_size())],
           "scores": [processor.get_score(i) for i in range(processor.get_piece_size())], "types": kinds,
           "vectors": [{"text": text, "ids": processor.encode(text)} for text in texts]}
    with open("tests/data/gguf/pieces.json", "w", encoding="utf-8") as file:
        json.dump(out, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


main()
