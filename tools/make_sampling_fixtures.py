#!/usr/bin/env python3
"""Writes tests/data/choose/sampling.json: what samplers leave of small vocabularies, and with which probabilities.

Repetition penalty, temperature, top-k, top-p, min-p and typical-p are those of transformers (generation/logits_process.py),
run in float64.  Presence and frequency penalties, DRY, XTC, top-n-sigma, the dynamic temperature and mirostat are
written here from their published formulas, by the most direct way (no selection, no Z function), in float64.
Needs torch and transformers.   usage: make_sampling_fixtures.py OUTPUT
"""
import json
import math
import random
import struct
import sys

import torch
from transformers.generation.logits_process import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                                                    TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
                                                    TypicalLogitsWarper)

random.seed(20)
WORDS = ["a", "b", " the", "\n", ": ", "x\"", "*", "cat", " dog", "e", "n", "d", "<e", "nd>", "!", " and", "0", "1"]
LLAMA_ORDER = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
DEFAULTS = {"temperature": 0.8, "dynatemp_range": 0, "dynatemp_exponent": 1, "top_k": 0, "top_p": 1, "min_p": 0,
            "typical_p": 1, "top_n_sigma": 0, "repeat_penalty": 1, "repeat_last_n": 64, "presence_penalty": 0,
            "frequency_penalty": 0, "penalty_prompt": 0, "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2,
            "dry_penalty_last_n": 64, "xtc_probability": 0, "xtc_threshold": 0.1, "mirostat": 0, "mirostat_tau": 5,
            "mirostat_eta": 0.1}


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def softmax(logits):
    """{token: logit} -> {token: probability}"""
    most = max(logits.values())
    weights = {t: math.exp(x - most) for t, x in logits.items()}
    total = sum(weights.values())
    return {t: w / total for t, w in weights.items()}


def by_likelihood(logits):
    return sorted(logits, key=lambda t: (-logits[t], t))


def through(warper, logits, tokens=None):
    """A processor of transformers on a dense row, of which dropped tokens are -inf."""
    size = max(logits) + 1
    row = torch.full((1, size), -math.inf, dtype=torch.float64)
    for t, x in logits.items():
        row[0, t] = x
    ids = torch.tensor([tokens or [0]])
    row = warper(ids, row)[0].tolist()
    return {t: row[t] for t in logits if row[t] > -math.inf}


class Case:
    def __init__(self, options, tokens, prompt, size):
        self.o = {**DEFAULTS, **options}
        self.tokens, self.prompt = tokens, prompt
        self.texts = [WORDS[t % len(WORDS)] for t in range(size)]
        self.surprise = 2 * self.o["mirostat_tau"]

    def last(self, count, begin=0):
        count = len(self.tokens) if count < 0 else count
        return self.tokens[max(len(self.tokens) - count, begin):]

    def penalties(self, logits):
        o = self.o
        if o["repeat_penalty"] != 1 and self.last(o["repeat_last_n"]):
            seen = [t for t in self.last(o["repeat_last_n"]) if t in logits]
            if seen:
                logits = through(RepetitionPenaltyLogitsProcessor(float(o["repeat_penalty"])), logits, seen)
        answer = self.last(o["repeat_last_n"], 0 if o["penalty_prompt"] else self.prompt)
        return {t: x - (o["presence_penalty"] if t in answer else 0) - answer.count(t) * o["frequency_penalty"]
                for t, x in logits.items()}

    def dry(self, logits):
        o, window = self.o, self.last(self.o["dry_penalty_last_n"])
        breakers = o.get("dry_breakers", ["\n", ":", "\"", "*"])
        if o["dry_multiplier"] == 0 or len(window) <= o["dry_allowed_length"]:
            return logits
        text, ends = "", []
        for t in self.tokens:
            begin = len(text)
            text += self.texts[t]
            # A breaker whose last character is in this token.
            ends.append(any(text.endswith(b, 0, at) for b in breakers for at in range(begin + 1, len(text) + 1)))
        ends = ends[len(ends) - len(window):]
        limit = next((i for i in range(len(window)) if ends[len(window) - 1 - i]), len(window))
        result = dict(logits)
        for t in logits:
            longest = 0
            for at in range(1, len(window)):
                if window[at] != t:
                    continue
                same = 0
                while same < at and window[at - 1 - same] == window[len(window) - 1 - same]:
                    same += 1
                longest = max(longest, min(same, limit))
            if longest >= o["dry_allowed_length"] and not any(b in self.texts[t] for b in breakers):
                result[t] -= o["dry_multiplier"] * o["dry_base"] ** (longest - o["dry_allowed_length"])
        return result

    def top_n_sigma(self, logits):
        if self.o["top_n_sigma"] <= 0:
            return logits
        mean = sum(logits.values()) / len(logits)
        deviation = math.sqrt(sum((x - mean) ** 2 for x in logits.values()) / len(logits))
        least = max(logits.values()) - self.o["top_n_sigma"] * deviation
        return {t: x for t, x in logits.items() if x >= least}

    def top_k(self, logits):
        k = self.o["top_k"]
        return through(TopKLogitsWarper(k), logits) if k and k < len(logits) else logits

    def typ_p(self, logits):
        return through(TypicalLogitsWarper(float(self.o["typical_p"])), logits) if self.o["typical_p"] < 1 else logits

    def top_p(self, logits):
        return through(TopPLogitsWarper(float(self.o["top_p"])), logits) if 0 < self.o["top_p"] < 1 else logits

    def min_p(self, logits):
        return through(MinPLogitsWarper(float(self.o["min_p"])), logits) if self.o["min_p"] > 0 else logits

    def xtc(self, logits):
        if self.o["xtc_probability"] < 1 or self.o["xtc_threshold"] > 0.5:  # cases have 0 or 1
            return logits
        p = softmax(logits)
        likely = [t for t in by_likelihood(logits) if p[t] >= self.o["xtc_threshold"]]
        return {t: x for t, x in logits.items() if t not in likely[:-1]}

    def temperature(self, logits):
        o, temperature = self.o, self.o["temperature"]
        if o["dynatemp_range"] > 0:
            low, high = max(0, temperature - o["dynatemp_range"]), temperature + o["dynatemp_range"]
            p = softmax(logits)
            if len(p) > 1:
                entropy = -sum(x * math.log(x) for x in p.values() if x > 0)
                temperature = low + (high - low) * (entropy / math.log(len(p))) ** o["dynatemp_exponent"]
        if temperature == 0:
            return {by_likelihood(logits)[0]: 0.0}
        return through(TemperatureLogitsWarper(float(temperature)), logits)

    def mirostat(self, logits, vocabulary):
        o, p, order = self.o, softmax(logits), by_likelihood(logits)
        if o["mirostat"] == 2:
            kept = [t for t in order if -math.log2(p[t]) <= self.surprise]
            return {t: logits[t] for t in kept or order[:1]}
        likely = order[:100]
        if len(likely) == 1:
            return logits
        products = squares = 0.0
        for i, (a, b) in enumerate(zip(likely, likely[1:])):
            step = math.log((i + 2) / (i + 1))
            products += step * math.log(p[a] / p[b])
            squares += step * step
        s = products / squares
        count = ((s - 1) * 2 ** self.surprise / (1 - vocabulary ** (1 - s))) ** (1 / s)
        return {t: logits[t] for t in order[:max(int(count), 1)]}

    def run(self, logits):
        left = dict(enumerate(logits))
        for token, bias in self.o.get("logit_bias", []):
            if bias is None:
                left.pop(token, None)
            elif token in left:
                left[token] += bias
        for name in self.o.get("samplers", LLAMA_ORDER).split(";"):
            if not self.o["mirostat"] or name in ("penalties", "dry", "temperature"):
                left = getattr(self, name)(left)
        if self.o["mirostat"]:
            left = self.mirostat(left, len(logits))
        return softmax(left)


def some(low, high):
    return f32(round(random.uniform(low, high), 3))


PICKS = {
    "repeat": lambda: {"repeat_penalty": some(0.8, 1.6), "repeat_last_n": random.choice([-1, 3, 16])},
    "presence": lambda: {"presence_penalty": some(-1, 2), "frequency_penalty": some(-0.5, 1),
                         "penalty_prompt": random.randint(0, 1), "repeat_last_n": random.choice([-1, 5, 20])},
    "dry": lambda: {"dry_multiplier": some(0.3, 2), "dry_base": some(1.1, 2.5),
                    "dry_allowed_length": random.randint(1, 4), "dry_penalty_last_n": random.choice([-1, 10, 40])},
    "breakers": lambda: {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_penalty_last_n": -1,
                         "dry_breakers": random.choice([["<end>"], ["cat dog"], ["end", "!"], []])},
    "top_n_sigma": lambda: {"top_n_sigma": some(0.2, 3)},
    "top_k": lambda: {"top_k": random.randint(1, 50)},
    "typical": lambda: {"typical_p": some(0.05, 0.98)},
    "top_p": lambda: {"top_p": some(0.05, 0.99)},
    "min_p": lambda: {"min_p": some(0.01, 0.5)},
    "xtc": lambda: {"xtc_probability": 1, "xtc_threshold": some(0.005, 0.45)},
    "temperature": lambda: {"temperature": some(0.2, 2.5)},
    "greedy": lambda: {"temperature": 0},
    "dynatemp": lambda: {"dynatemp_range": some(0.1, 1), "dynatemp_exponent": some(0.5, 2)},
    "mirostat": lambda: {"mirostat": random.randint(1, 2), "mirostat_tau": some(0.5, 4)},
    "surprise": lambda: {"mirostat": 2, "mirostat_tau": some(1, 3), "temperature": some(1, 3)},
    "bias": lambda: {"logit_bias": [[random.randrange(20), random.choice([None, some(-5, 5)])] for _ in range(4)]},
    "order": lambda: {"samplers": ";".join(random.sample(LLAMA_ORDER.split(";"), random.randint(3, 9)))},
}


def repeated_tokens(size, count):
    """Text with repeated sequences."""
    tokens = []
    while len(tokens) < count:
        if tokens and random.random() < 0.6:
            begin = random.randrange(len(tokens))
            tokens += tokens[begin:begin + random.randint(1, 8)]
        else:
            tokens.append(random.randrange(min(size, 24)))
    return tokens[:count]


def make(names, size):
    options = {}
    for name in names:
        options.update(PICKS[name]())
    if "logit_bias" in options:
        options["logit_bias"] = [pair for pair in options["logit_bias"] if pair[0] < size - 1]
    tokens = repeated_tokens(size, random.choice([0, 1, 5, 30, 90]))
    prompt = random.randint(0, len(tokens))
    scale = random.choice([1, 3])
    logits = [round(random.gauss(0, scale), 3) for _ in range(size)]
    for i in range(0, 6):  # a few likely ones
        logits[random.randrange(size)] = round(2 + 3 * scale - i * random.random(), 3)
    return {"options": options, "size": size, "tokens": tokens, "prompt": prompt, "logits": logits,
            "left": [[t, float(f"{p:.9g}")] for t, p in
                     sorted(Case(options, tokens, prompt, size).run([f32(x) for x in logits]).items())]}


def main():
    cases = [make([name], size) for name in PICKS for size in (1, 7, 40, 130) for _ in range(2)
             if not (name == "mirostat" and size == 1)]
    cases += [make(["surprise"], 60) for _ in range(12)]
    for _ in range(120):
        names = random.sample(sorted(PICKS), random.randint(2, 6))
        cases.append(make(names, random.choice([20, 60, 100])))
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("{\"words\": " + json.dumps(WORDS) + ",\n\"cases\": [\n")
        out.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
        out.write("\n]}\n")
    print(len(cases), "cases")


main()
