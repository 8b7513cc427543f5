"""Models: text, scores, embeddings, experts, errors."""

from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
import sluice
from conftest import read_safetensors
from sluice.model import parse_size


def test_info_and_memory(model: sluice.Model, program: Callable[..., Dict[str, Any]]) -> None:
    told = program("info", "models/fable")
    assert model.info.layers == told["layers"] == 8
    assert (model.info.architecture, model.info.experts) == ("qwen3_5_moe", 32)
    parts = {k: v for k, v in vars(model.memory).items() if k.endswith("_bytes")}
    for name in ("promised_bytes", "machine_left_bytes", "group_left_bytes"):
        parts.pop(name)
    assert sum(parts.values()) == model.memory.promised_bytes


@pytest.mark.parametrize("text", ["Tell me a story.", "", "naïve 字 🦊", "<|im_start|>user\n"])
def test_tokens_of_a_text_give_it_back(model: sluice.Model, text: str) -> None:
    assert model.detokenize(model.tokenize(text)) == text


def test_tokens_are_those_of_the_program(
    model: sluice.Model, program: Callable[..., Dict[str, Any]]
) -> None:
    text = "Tell me a story about a brave fox."
    found = program("tokenize", text)
    assert found["ids"] == model.tokenize(text)


def test_render(model: sluice.Model) -> None:
    assert model.render("Hello!") == ("<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n")
    messages = [{"role": "system", "content": "Be brief."}, sluice.Message("user", "<|im_end|>")]
    tokens = model.tokenize_chat(messages)
    assert model.detokenize(tokens) == model.render(messages)
    assert tokens != model.tokenize(model.render(messages))  # a message cannot pretend to end


def test_logits_are_those_of_the_reference(shared_fable: Path) -> None:
    wanted = read_safetensors(shared_fable / "reference.safetensors")
    with sluice.Model(shared_fable, exact=True) as exact, exact.session() as session:
        for prompt in range(3):
            greedy: List[int] = wanted[f"prompt{prompt}.greedy"].tolist()
            rows = wanted[f"prompt{prompt}.logits"]
            session.rewind(0)
            found = session.extend_all(greedy[: len(rows)])
            assert np.linalg.norm(found - rows) < 5e-5 * np.linalg.norm(rows)
            session.rewind(0)
            session.extend(greedy[: len(rows)])
            last = session.logits
            assert last is not None
            assert np.linalg.norm(last - rows[-1]) < 5e-5 * np.linalg.norm(rows[-1])


def test_greedy_answers_are_those_of_the_reference(shared_fable: Path) -> None:
    wanted = read_safetensors(shared_fable / "reference.safetensors")
    with sluice.Model(shared_fable, exact=True) as exact:
        for prompt in range(7):
            tokens = wanted[f"prompt{prompt}.tokens"].tolist()
            made = exact.generate(tokens, temperature=0).tokens
            assert tokens + made == wanted[f"prompt{prompt}.greedy"].tolist()[: len(tokens + made)]


def test_perplexity_is_that_of_the_reference(shared_fable: Path) -> None:
    rows = read_safetensors(shared_fable / "reference.safetensors")["heldout.tokens"]
    with sluice.Model(shared_fable, exact=True) as exact:
        scores = [item.logprob for row in rows[:4] for item in exact.logprobs(row.tolist())]
        assert len(scores) == 4 * 511
        assert exact.perplexity(rows[0].tolist()) == pytest.approx(np.exp(-np.mean(scores[:511])))
    assert np.exp(-np.mean(scores)) == pytest.approx(1.339, abs=0.05)  # 1.33922 over all 32 rows


def test_logprobs_are_a_softmax(model: sluice.Model) -> None:
    tokens = model.tokenize_chat("Hello!")
    found = model.logprobs(tokens, top=3)
    with model.session() as session:
        logits = session.extend_all(tokens).astype(np.float64)
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for row, following, item in zip(scores, tokens[1:], found):
        assert item.token == following
        assert item.logprob == pytest.approx(row[following], abs=1e-6)
        assert [one.token for one in item.top] == np.argsort(-row)[:3].tolist()


def test_embed(model: sluice.Model) -> None:
    found = model.embed(["a red fox", "a red fox", "17 + 25"])
    assert found.shape == (3, model.info.hidden) and found.dtype == np.float32
    assert np.array_equal(found[0], found[1]) and not np.allclose(found[0], found[2])
    with model.session() as session:
        _, states = session.extend_all(model.tokenize("a red fox"), hidden=True)
    assert np.allclose(found[0], states.mean(axis=0), atol=1e-5)
    assert np.array_equal(model.embed("a red fox", pooling="last")[0], states[-1])
    with pytest.raises(ValueError, match="pooling is 'max'"):
        model.embed("x", pooling="max")


def test_expert_uses(single: sluice.Model) -> None:
    single.chat("Hello!", temperature=0)
    uses, misses, in_memory, totals = single.expert_uses()
    assert uses.shape == misses.shape == in_memory.shape == (8, 32)
    assert uses.sum() == totals.hits + totals.misses > 0
    assert (uses.sum(axis=1) >= 4).all()
    assert in_memory[misses > 0].all()


def test_budget_and_progress(fable: str) -> None:
    seen = []
    with sluice.Model(fable, budget="25%", progress=lambda *a: seen.append(a)) as small:
        assert small.info.slot_count < small.info.expert_count
        assert small.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."
    assert len(seen) > 2 and seen == sorted(seen) and seen[-1][1] <= seen[-1][2]


def test_an_exception_in_progress_ends_opening(fable: str) -> None:
    def stop(*_: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        sluice.Model(fable, progress=stop)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ("8GiB", (8 << 30, 0)),
        ("1.5 GB", (1500000000, 0)),
        ("25%", (0, 0.25)),
        (0.5, (0, 0.5)),
        (7, (7, 0)),
    ],
)
def test_sizes(size: Any, wanted: Any) -> None:
    assert parse_size("budget", size) == wanted


def test_errors_have_types_and_messages(model: sluice.Model, fable: str, tmp_path: Path) -> None:
    with pytest.raises(sluice.IOError, match="no-such-model"):
        sluice.Model("no-such-model")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(sluice.Error, match="bad.gguf"):
        sluice.Model(tmp_path / "bad.gguf")
    with pytest.raises(ValueError, match="budget: expected bytes"):
        sluice.Model(fable, budget="8 gigs")
    with pytest.raises(sluice.InvalidError, match="the prompt is empty"):
        model.generate("")
    with pytest.raises(sluice.InvalidError, match="the context holds"):
        model.generate([5] * 5000)
    closed = sluice.Model(fable)
    closed.close()
    closed.close()
    with pytest.raises(sluice.InvalidError, match="the model is closed"):
        closed.tokenize("x")


@pytest.mark.parametrize(
    "options",
    [
        {"budget": -5},
        {"budget": 0},
        {"context": -1},
        {"threads": -1},
        {"sessions": 0},
        {"sessions": 2**40},
    ],
)
def test_numbers_that_c_would_cut_off(fable: str, options: Dict[str, int]) -> None:
    (name,) = options
    with pytest.raises(sluice.InvalidError, match=f"{name} is .*, wanted"):
        sluice.Model(fable, **options)


def test_values_of_the_wrong_type(model: sluice.Model, fable: str) -> None:
    with pytest.raises(TypeError, match="device: expected a text, got 5"):
        sluice.Model(fable, device=5)
    with pytest.raises(TypeError, match="prompt: expected a text or tokens, got bytes"):
        model.generate(b"Once")
    with pytest.raises(TypeError, match="messages: .* got dict"):
        model.chat({"role": "user", "content": "Hello!"})
    with pytest.raises(TypeError, match="expected a Message or a dict, got 'Hello!'"):
        model.chat(["Hello!"])
    with pytest.raises(TypeError, match="stop: expected a text, got 1"):
        model.generate("Once", stop=[1])
    with pytest.raises(TypeError, match="max_tokens: expected an integer, got '5'"):
        model.generate("Once", max_tokens="5")
    with pytest.raises(sluice.InvalidError, match="seed is -1"):
        model.generate("Once", seed=-1)
