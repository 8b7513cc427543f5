"""Text: tokens of the program, sampling options, stop texts, grammars."""

import copy
import json
import pickle
import re
from typing import Any, Callable, Dict

import pytest
import sluice

Program = Callable[..., Dict[str, Any]]
STORY = "Tell me a story about a brave fox."


@pytest.mark.parametrize("seed", [1, 7])
def test_sampled_tokens_are_those_of_the_program(
    single: sluice.Model, program: Program, seed: int
) -> None:
    options = ["-p", STORY, "--seed", str(seed), "--temp", "1.2", "--repeat-penalty", "1.1"]
    told = program("run", "-m", "models/fable", *options)
    found = single.chat(STORY, seed=seed, temperature=1.2, repeat_penalty=1.1)
    assert found.tokens == told["tokens"]
    assert (found.content, found.seed) == (told["answer"], seed)


def test_raw_text_is_that_of_the_program(single: sluice.Model, program: Program) -> None:
    told = program("run", "-m", "models/fable", "--raw", "-p", "Once", "-n", "20", "--seed", "3")
    found = single.generate("Once", seed=3, max_tokens=20)
    assert found.tokens == told["tokens"]


def test_a_completion_is_a_str(model: sluice.Model) -> None:
    prompt = model.render(STORY)
    found = model.generate(prompt, temperature=0, max_tokens=10)
    assert isinstance(found, str) and found == model.detokenize(found.tokens)
    assert (found.finish_reason, len(found.tokens)) == ("length", 10)
    assert found.prompt_tokens == len(model.tokenize(prompt))
    assert model.generate(prompt, max_tokens=0) == ""
    seeded = model.generate(prompt, temperature=1.5)
    assert model.generate(prompt, temperature=1.5, seed=seeded.seed) == seeded


def test_a_completion_can_be_copied(model: sluice.Model) -> None:
    text = model.generate("Once", max_tokens=3, temperature=0)
    for other in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert other == text and other.tokens == text.tokens and other.seed == text.seed


def test_a_stream_gives_the_same_text(model: sluice.Model) -> None:
    prompt = model.render(STORY)
    with model.stream(prompt, temperature=0) as stream:
        pieces = list(stream)
    assert "".join(pieces) == stream.result == model.generate(prompt, temperature=0)
    assert len(pieces) > 20 and stream.result.finish_reason == "stop"
    stream = model.stream(prompt, temperature=0)
    first = next(stream)
    stream.close()
    assert first == pieces[0] == stream.text
    with pytest.raises(RuntimeError, match="closed before its end"):
        _ = stream.result


def test_characters_are_never_divided(model: sluice.Model) -> None:
    text = "Grüße, 字 und 🦊!"
    with model.stream(model.render("x"), choices=[text]) as stream:
        pieces = list(stream)
    assert "".join(pieces) == text and "\ufffd" not in text
    assert any(len(model.tokenize(one)) > 1 for one in pieces)  # several tokens of one character


def test_stop_texts(model: sluice.Model) -> None:
    prompt = model.render(STORY)
    whole = model.generate(prompt, temperature=0)
    cut = model.generate(prompt, temperature=0, stop=["One day", "never said"])
    assert cut == whole[: whole.index("One day")] and cut.finish_reason == "stop"
    said = model.chat(STORY, temperature=0, stop="One day").content
    assert said == cut


def test_context_that_is_full(fable: str) -> None:
    with sluice.Model(fable, context=64) as small:
        found = small.generate("Once", temperature=0, ignore_eos=True)
        assert found.finish_reason == "context"
        assert len(found.tokens) + found.prompt_tokens == 65


def test_logprobs(model: sluice.Model) -> None:
    found = model.chat(STORY, temperature=0, max_tokens=8, logprobs=3)
    assert found.logprobs is not None
    assert [one.token for one in found.logprobs] == found.tokens
    for one in found.logprobs:
        assert one.top[0].token == one.token and len(one.top) == 3
        assert 0 >= one.top[0].logprob >= one.top[1].logprob >= one.top[2].logprob


def test_unknown_options_name_the_closest(model: sluice.Model) -> None:
    with pytest.raises(TypeError, match="'temprature'; did you mean 'temperature'"):
        model.generate("x", temprature=1)
    with pytest.raises(TypeError, match="'max_token'; did you mean 'max_tokens'"):
        model.chat("x", max_token=1)
    with pytest.raises(TypeError, match="did you mean 'top_k'"):
        sluice.Sampler(model, topk=1)
    with pytest.raises(sluice.InvalidError, match="top_p"):
        model.generate("x", top_p=2)
    with pytest.raises(TypeError, match="top_k: expected a number"):
        model.generate("x", top_k=[1])


def test_every_option_of_the_table_is_accepted(model: sluice.Model) -> None:
    for option in sluice.OPTIONS.values():
        if option.kind == "order":
            value: Any = ["top_k", "temperature"]
        elif option.kind == "list":
            value = {5: 1.0} if option.name == "logit_bias" else ["\n", "."]
        else:
            value = option.usual or max(option.least, 1)
            value = value if option.kind == "real" else int(value)
        for name in (option.name, *option.aliases):
            sluice.Sampler(model, **{name: value}).close()


def test_biases(model: sluice.Model) -> None:
    greedy = model.chat("Hello!", temperature=0, max_tokens=1)
    banned = model.chat(
        "Hello!", temperature=0, max_tokens=1, logit_bias={greedy.tokens[0]: float("-inf")}
    )
    assert banned.tokens != greedy.tokens
    forced = model.chat("Hello!", temperature=0, max_tokens=1, logit_bias={" fox": 100.0})
    assert forced.content == " fox"


def test_regex_choices_and_gbnf(model: sluice.Model) -> None:
    number = model.chat("What is 17 + 25?", regex="[0-9]{2}", seed=1).content
    assert re.fullmatch("[0-9]{2}", number)
    assert model.chat("Hello!", choices=["yes", "no"], seed=1).content in ("yes", "no")
    assert model.chat("Hello!", grammar='root ::= "a" [bc]', seed=1).content in ("ab", "ac")
    with sluice.Grammar(regex="[xy]{3}") as shared:
        texts = {
            model.generate("Go", grammar=shared, seed=seed, temperature=9) for seed in range(8)
        }
    assert all(re.fullmatch("[xy]{3}", text) for text in texts) and len(texts) > 1
    with pytest.raises(TypeError, match="regex and choices: give only one"):
        model.chat("x", regex="a", choices=["b"])
    with pytest.raises(sluice.Error):
        model.chat("x", regex="(")


def test_grammars_give_the_tokens_of_the_program(single: sluice.Model, program: Program) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    words = ["-p", STORY, "--seed", "5", "--json-schema", json.dumps(schema), "-n", "60"]
    told = program("run", "-m", "models/fable", *words)
    found = single.chat(STORY, seed=5, json_schema=schema, max_tokens=60)
    assert found.tokens == told["tokens"]


def test_json_schema_is_parsed(model: sluice.Model) -> None:
    schema = {
        "type": "object",
        "properties": {"total": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["total"],
        "additionalProperties": False,
    }
    found = model.chat("What is 17 + 25?", json_schema=schema, temperature=0)
    assert found.parsed == json.loads(found.content) and 0 <= found.parsed["total"] <= 99
    cut = model.chat("What is 17 + 25?", json_schema=schema, temperature=0, max_tokens=2)
    assert cut.parsed is None and cut.finish_reason == "length"


def test_pydantic_models_are_parsed(model: sluice.Model) -> None:
    pydantic = pytest.importorskip("pydantic")
    closed = pydantic.ConfigDict(extra="forbid")
    number = (int, pydantic.Field(ge=0, le=99))
    sum_model = pydantic.create_model("Sum", __config__=closed, total=number)
    found = model.generate(model.render("What is 17 + 25?"), json_schema=sum_model, seed=2)
    assert isinstance(found.parsed, sum_model) and 0 <= found.parsed.total <= 99


def test_batch_gives_what_generate_gives(model: sluice.Model) -> None:
    prompts = [model.render(text) for text in ("Hello!", STORY, "What is 3 + 4?", "Count to five.")]
    prompts += prompts[:2]  # more than there are sessions
    for options in ({"temperature": 0}, {"seed": 3, "top_k": 20, "repeat_penalty": 1.1}):
        together = model.batch(prompts, max_tokens=24, **options)
        alone = [model.generate(one, max_tokens=24, **options) for one in prompts]
        assert [one.tokens for one in together] == [one.tokens for one in alone]
        assert together == alone
        assert [one.finish_reason for one in together] == [one.finish_reason for one in alone]


def test_batch_with_stops_grammars_and_logprobs(model: sluice.Model) -> None:
    prompts = [model.render(text) for text in (STORY, "Hello!")]
    assert model.batch(prompts, regex="[0-9]{3}", seed=1) == [
        model.generate(one, regex="[0-9]{3}", seed=1) for one in prompts
    ]
    cut = model.batch(prompts, temperature=0, stop=[" a"])
    assert cut == [model.generate(one, temperature=0, stop=[" a"]) for one in prompts]
    scored = model.batch(prompts, temperature=0, max_tokens=3, logprobs=2)
    assert all(len(one.logprobs or []) == len(one.tokens) for one in scored)
    assert scored[0].logprobs[0].top[0].token == scored[0].tokens[0]
    assert model.batch(prompts, max_tokens=0) == ["", ""] and model.batch([]) == []
    with pytest.raises(TypeError, match="did you mean 'top_p'"):
        model.batch(prompts, topp=1)
