#!/usr/bin/env python3
"""Compares this tokenizer with Hugging Face's `tokenizers` package: speed, and ids of random texts.

    compare_tokenizers.py bench  BENCH TOKENIZER_JSON TEXT_FILE...
    compare_tokenizers.py random BENCH TOKENIZER_JSON [COUNT [SEED]]

BENCH is the program built from engine/text/tokenizer_bench.c.  Speed is in user time on one core, the
better of encode and encode_batch_fast against ours, rounds taken in turn.  Random texts are made
of characters of all scripts, words, numbers, white space, marks, emoji sequences and added tokens.
Where the tokenizer normalises, characters whose combining class the package does not know yet
(its tables of NFC are older than its Unicode 16 classes of characters) are left out."""
import json
import os
import random
import resource
import struct
import subprocess
import sys
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer, normalizers  # noqa: E402

ROUNDS = 5


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def bench_theirs(tokenizer, text):
    best = 1e9
    for encode in (lambda: len(tokenizer.encode(text, add_special_tokens=False).ids),
                   lambda: len(tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids)):
        start = user_seconds()
        count = encode()
        best = min(best, user_seconds() - start)
    return best, count


def bench(program, path, files):
    tokenizer = Tokenizer.from_file(path)
    ratios = []
    for file in files:
        text = open(file, encoding="utf8", newline="").read()
        theirs = ours = 1e9
        for _ in range(ROUNDS):
            seconds, count = bench_theirs(tokenizer, text)
            theirs = min(theirs, seconds)
            reply = json.loads(subprocess.run([program, path, file, "3"], capture_output=True, check=True).stdout)
            ours = min(ours, reply["user_seconds"])
        size = len(text.encode()) / 1e6
        same = "same count" if count == reply["tokens"] else "COUNTS DIFFER (%d, ours %d)" % (count, reply["tokens"])
        ratios.append(theirs / ours)
        print("%-12s %-40s theirs %7.2f MB/s  ours %7.2f MB/s  ratio %5.2f  %s"
              % (os.path.basename(os.path.dirname(path)), os.path.basename(file), size / theirs, size / ours, ratios[-1], same))
    return 0 if min(ratios) >= 3 else 1


# ---- random texts ----

def usable_characters(tokenizer):
    characters = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    if tokenizer.normalizer is None:
        return characters
    nfc = normalizers.NFC()
    try:
        import unicodedata2 as tables
    except ImportError:
        tables = unicodedata

    def agrees(c):
        text = "a" + chr(c) + "\u0323\u0301"
        return nfc.normalize_str(text) == tables.normalize("NFC", text)
    return [c for c in characters if c < 0x300 or agrees(c)]


class Maker:
    WORDS = ("the of and a to in is you that it he was for on are as with his they I at be this have from or one "
             "had by word but not what all were we when your can said there use an each which she do how their if "
             "don't it's I'll THEY'RE we've O'Neil camelCase snake_case HTTPServer iPhone foo(bar) x**2 == != -> "
             "C:\\path /usr/bin https://a.b/c?d=e&f=1 user@example.com \u017Fs '\u017F 'S 'LL").split()
    SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u000b", "\u180e"]
    EMOJI = ["\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA", "\U0001F44D\U0001F3FD", "\u2764\uFE0F", "1\uFE0F\u20E3", "\U0001F600"]

    def __init__(self, tokenizer, seed):
        self.random = random.Random(seed)
        self.characters = usable_characters(tokenizer)
        self.assigned = [c for c in self.characters if unicodedata.category(chr(c)) not in ("Cn", "Co")]
        self.marks = [c for c in self.assigned if unicodedata.category(chr(c))[0] == "M"]
        self.digits = [c for c in self.assigned if unicodedata.category(chr(c))[0] == "N"]
        self.signs = [c for c in self.assigned if unicodedata.category(chr(c))[0] in "PS"]
        self.added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
        self.blocks = [b for b in range(0, 0x20000, 0x80)]
        self.by_block = {}
        for c in self.assigned:
            self.by_block.setdefault(c // 0x80, []).append(c)
        self.blocks = list(self.by_block)

    def piece(self):
        r = self.random
        kind = r.randrange(16)
        if kind < 4:
            return r.choice(self.WORDS) + (" " if r.random() < 0.7 else "")
        if kind < 6:
            return r.choice(self.SPACES) * r.choice((1, 1, 1, 2, 3))
        if kind == 6:
            return "".join(chr(r.choice(self.digits)) for _ in range(r.randint(1, 5)))
        if kind == 7:
            return "".join(r.choice("0123456789") for _ in range(r.randint(1, 9)))
        if kind == 8:
            return "".join(chr(r.choice(self.signs)) for _ in range(r.randint(1, 4)))
        if kind == 9:
            return r.choice("aeou\u00e9\uac00\u1100\u0915") + "".join(chr(r.choice(self.marks)) for _ in range(r.randint(1, 4)))
        if kind == 10:
            return r.choice(self.EMOJI)
        if kind == 11 and self.added and r.random() < 0.5:
            return r.choice(self.added)
        if kind == 12:
            return chr(r.choice(self.characters))
        if kind == 13:
            return "".join(chr(r.randrange(32, 127)) for _ in range(r.randint(1, 6)))
        block = self.by_block[r.choice(self.blocks)]
        return "".join(chr(r.choice(block)) for _ in range(r.randint(1, 6)))

    def text(self):
        return "".join(self.piece() for _ in range(self.random.choice((1, 2, 3, 5, 8, 20))))


def ours_of(program, path, texts):
    sent = b"".join(struct.pack("<I", len(t)) + t for t in (t.encode() for t in texts))
    done = subprocess.run([program, path], input=sent, capture_output=True, check=False)
    if done.returncode:
        sys.exit("%s: %s" % (program, done.stderr.decode()))
    reply, at, answers = done.stdout, 0, []
    for _ in texts:
        count = struct.unpack_from("<I", reply, at)[0]
        ids = list(struct.unpack_from("<%di" % count, reply, at + 4))
        at += 4 + 4 * count
        size = struct.unpack_from("<I", reply, at)[0]
        answers.append((ids, reply[at + 4:at + 4 + size]))
        at += 4 + size
    return answers


def compare(program, path, count, seed):
    tokenizer = Tokenizer.from_file(path)
    maker = Maker(tokenizer, seed)
    different, shown = 0, 0
    for start in range(0, count, 5000):
        texts = [maker.text() for _ in range(min(5000, count - start))]
        theirs = tokenizer.encode_batch(texts, add_special_tokens=False)
        for text, (ids, _), wanted in zip(texts, ours_of(program, path, texts), theirs):
            if ids == wanted.ids:
                continue
            different += 1
            if shown < 5:
                shown += 1
                print("differs: %r\n  theirs %s\n  ours   %s" % (text, wanted.tokens, [tokenizer.id_to_token(i) for i in ids]))
    print("%s: %d random texts, %d differ" % (os.path.basename(os.path.dirname(path)), count, different))
    return 1 if different else 0


def main():
    what, program, path, *rest = sys.argv[1:]
    if what == "bench":
        return bench(program, path, rest)
    return compare(program, path, int(rest[0]) if rest else 100000, int(rest[1]) if len(rest) > 1 else 1)


if __name__ == "__main__":
    sys.exit(main())
