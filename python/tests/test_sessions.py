"""Sessions and samplers of one's own."""

from pathlib import Path

import numpy as np
import pytest
import sluice


@pytest.fixture
def story(model: sluice.Model) -> "list[int]":
    return model.tokenize_chat("Tell me a story about a brave fox.")


def test_next_is_what_generate_gives(model: sluice.Model, story: "list[int]") -> None:
    wanted = model.generate(story, temperature=0, max_tokens=12).tokens
    with model.session() as session:
        session.extend(story)
        assert [session.next(temperature=0) for _ in range(12)] == wanted
        assert session.tokens == story + wanted and len(session) == len(story) + 12
        session.rewind(len(story) + 3)
        assert session.next(temperature=0) == wanted[3]


def test_logits_are_a_view(model: sluice.Model, story: "list[int]") -> None:
    with model.session() as session:
        assert session.logits is None
        session.extend(story)
        view = session.logits
        assert view is not None and not view.flags.writeable and not view.flags.owndata
        again = session.logits
        assert again is not None and again.ctypes.data == view.ctypes.data
        token = int(view.argmax())
        assert session.sample(temperature=0) == token
        sampler = sluice.Sampler(model, temperature=0)
        assert sampler.choose(view) == token
        allowed = np.ones(model.info.vocab, bool)
        allowed[token] = False
        second = int(np.argsort(view)[-2])
        assert sampler.choose(view, allowed) == session.next(sampler, allowed=allowed) == second
        session.extend(story[:1])
    assert np.isfinite(view).all()  # the memory lives as long as the view


def test_fork_save_load_sync(model: sluice.Model, story: "list[int]", tmp_path: Path) -> None:
    with model.session() as session:
        session.extend(story)
        with session.fork() as copy:
            assert np.array_equal(copy.logits, session.logits)
            assert copy.next(seed=5) == session.sample(seed=5)
        session.save(tmp_path / "talk.kv", note=b"a note")
        logits = session.logits.copy()
        assert session.sync(story[:5] + [7]).reused <= 5
        report = session.sync(story)
        assert report.tokens == len(story) and report.text
        assert session.sync(story).reused == len(story)
        session.rewind(0)
        assert session.load(tmp_path / "talk.kv") == b"a note"
        assert session.tokens == story and np.array_equal(session.logits, logits)
        assert session.stats["prefill_tokens"] > 0
    (tmp_path / "bad.kv").write_bytes((tmp_path / "talk.kv").read_bytes()[:-5])
    with model.session() as session, pytest.raises(sluice.FormatError, match="bad.kv"):
        session.load(tmp_path / "bad.kv")


def test_samplers_fork_and_rewind(model: sluice.Model) -> None:
    sampler = sluice.Sampler(model, seed=1, repeat_penalty=1.3)
    sampler.begin([5, 6, 7])
    sampler.accept([8])
    with sampler.fork() as copy:
        assert len(copy) == len(sampler) == 4
        copy.rewind(2)
        assert (len(copy), len(sampler)) == (2, 4)
    assert sampler.info["host_reason"] == "repeat_penalty"


def test_there_are_as_many_sessions_as_were_asked_for(fable: str) -> None:
    with sluice.Model(fable) as small:
        small.generate("x", max_tokens=1)
        mine = small.session()  # the idle one of generate makes room
        with pytest.raises(sluice.Error, match="session"):
            small.session()
        mine.close()
        with small.stream("Once") as stream:
            next(stream)
            with pytest.raises(sluice.InvalidError, match="open the model with more `sessions`"):
                small.generate("x")
        assert small.generate("x", max_tokens=1).prompt_tokens == 1


def test_closed_objects_say_so(model: sluice.Model) -> None:
    session = model.session()
    session.close()
    assert session.closed
    with pytest.raises(sluice.InvalidError, match="the session is closed"):
        session.extend([1])


def test_wrong_tokens_are_an_error(model: sluice.Model) -> None:
    with model.session() as session, pytest.raises(sluice.InvalidError):
        session.extend([model.info.vocab + 5])
