"""Samplers: how tokens are chosen from logits."""

import ctypes
import difflib
import operator
import random
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _declarations as d
from ._handle import Owner, create
from ._library import call, fill, lib
from .errors import InvalidError

if TYPE_CHECKING:
    from .model import Model

Token = int


class SamplerOption(NamedTuple):
    """A row of the option table: what `Sampler` and all functions that generate accept."""

    name: str
    aliases: Tuple[str, ...]
    kind: str
    help: str
    least: float
    most: float
    usual: float


def _read_options() -> Dict[str, SamplerOption]:
    rows: Dict[str, SamplerOption] = {}
    for index in range(lib.sl_sampler_option_count()):
        row = fill(d.sl_sampler_option)
        call(lib.sl_sampler_option_at, index, ctypes.byref(row))
        option = SamplerOption(
            row.name.decode(),
            tuple(row.aliases.decode().split()),
            row.kind.decode(),
            row.help.decode(),
            row.least,
            row.most,
            row.usual,
        )
        rows[option.name] = option
    return rows


#: All options by name.
OPTIONS: Dict[str, SamplerOption] = _read_options()
_NAMES: Dict[str, str] = {alias: o.name for o in OPTIONS.values() for alias in (o.name, *o.aliases)}
_MOST_SEED = 2**63 - 1
# Fields of sl_sampler_options that are no rows of the table.
_TEXTS = ("thinking_start", "thinking_end", "thinking_message")


def unknown_option(name: str, known: Iterable[str], what: str = "option") -> TypeError:
    """The error for a keyword that does not exist, with the closest one that does."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return TypeError(f"unknown {what} {name!r}{hint}")


def as_count(name: str, value: Any, least: int = 0, most: int = 2**32 - 1) -> int:
    """A number that C takes; ctypes would cut off what does not fit."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None
    if not least <= number <= most:
        raise InvalidError(f"{name} is {number}, wanted {least} to {most}")
    return number


def as_bytes(name: str, value: Any) -> bytes:
    """A text that C takes."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got {value!r}")
    return value.encode()


def check_names(options: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    """Raises TypeError if one of the names is neither a sampling option nor one of `more`."""
    known = {*_NAMES, *_TEXTS, "logprobs", *more}
    for name in options:
        if name not in known:
            raise unknown_option(name, known)


def _value_text(option: SamplerOption, value: Any) -> str:
    if option.kind == "order" and not isinstance(value, str):
        return ";".join(value)
    if option.kind == "onoff":
        return "1" if value else "0"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{option.name}: expected a number, got {value!r}")
    return value if isinstance(value, str) else repr(value)


class Sampler(Owner):
    """What chooses the tokens of one sequence: options, and the tokens so far.

    Options are those of docs/sampling.md; what is not given is what the model was published with.

    >>> sampler = sluice.Sampler(model, temperature=0.7, top_p=0.9, seed=1)
    >>> token = session.next(sampler)
    """

    def __init__(self, model: "Model", **options: Any) -> None:
        check_names(options)
        self.model = model
        self._keep: List[Any] = []
        made = fill(d.sl_sampler_options)
        call(lib.sl_sampler_defaults, model._live(), ctypes.byref(made))
        self._set_all(made, options)
        #: The seed of the random numbers, to get the same tokens again.
        self.seed: int = made.seed
        handle = create(
            lib.sl_sampler_destroy,
            lib.sl_sampler_create,
            model._live(),
            ctypes.byref(made),
            keeps=(model._live(),),
        )
        self._keep.clear()  # the library has copied it
        self._handle = handle

    def _set_all(self, made: Any, options: Mapping[str, Any]) -> None:
        given = {
            _NAMES.get(name, name): value for name, value in options.items() if value is not None
        }
        made.seed = as_count("seed", given.pop("seed", random.getrandbits(31)), 0, _MOST_SEED)
        if "repeat_penalty" in given:  # a penalty of one's own is for the usual number of tokens
            made.repeat_last_n = 0
        count = given.pop("logprobs", None)
        made.logprobs = 0 if count is None else 1 + as_count("logprobs", count, 0, 2**31)
        for name in _TEXTS:
            if name in given:
                setattr(made, name, as_bytes(name, given.pop(name)))
        if "logit_bias" in given:
            self._set_biases(made, given.pop("logit_bias"))
        if "dry_breakers" in given:
            self._set_breakers(made, given.pop("dry_breakers"))
        for name, value in given.items():
            text = _value_text(OPTIONS[name], value).encode()
            self._keep.append(text)
            call(lib.sl_sampler_set, ctypes.byref(made), name.encode(), text)

    def _set_biases(self, made: Any, biases: Mapping[Union[Token, str], float]) -> None:
        pairs = []
        for key, bias in biases.items():
            tokens = self.model.tokenize(key) if isinstance(key, str) else [key]
            pairs += [d.sl_logit_bias(token, bias) for token in tokens]
        array = (d.sl_logit_bias * len(pairs))(*pairs)
        self._keep.append(array)
        made.logit_bias = array if pairs else None
        made.logit_bias_count = len(pairs)

    def _set_breakers(self, made: Any, breakers: Sequence[str]) -> None:
        given = [breakers] if isinstance(breakers, str) else breakers
        texts = [as_bytes("dry_breakers", text) for text in given]
        array = (ctypes.c_char_p * max(1, len(texts)))(*texts)
        self._keep.append(array)
        made.dry_breakers = ctypes.addressof(array)
        made.dry_breaker_count = len(texts)

    def begin(self, tokens: Sequence[Token]) -> None:
        """The sequence is these tokens, all of which are prompt."""
        call(lib.sl_sampler_begin, self._live(), token_array(tokens), len(tokens))

    def accept(self, tokens: Sequence[Token]) -> None:
        """Appends tokens to the answer."""
        call(lib.sl_sampler_accept, self._live(), token_array(tokens), len(tokens))

    def rewind(self, length: int) -> None:
        """Goes back to the first `length` tokens."""
        call(lib.sl_sampler_rewind, self._live(), as_count("length", length))

    def __len__(self) -> int:
        return int(lib.sl_sampler_length(self._live()))

    def fork(self) -> "Sampler":
        """A copy that goes its own way from here."""
        copy = object.__new__(Sampler)
        copy.model, copy.seed, copy._keep = self.model, self.seed, []
        keeps = (self.model._live(),)
        copy._handle = create(
            lib.sl_sampler_destroy, lib.sl_sampler_fork, self._live(), keeps=keeps
        )
        return copy

    def choose(self, logits: Any, allowed: Optional[Any] = None) -> Token:
        """The next token from an array of logits, one for each token of the vocabulary.

        allowed: a boolean array that says which tokens are possible.
        """
        import numpy as np

        row = np.ascontiguousarray(logits, dtype=np.float32)
        if row.ndim != 1:
            raise InvalidError(f"logits have {row.ndim} dims, wanted 1")
        mask = None if allowed is None else allowed_words(allowed, row.shape[0])
        out = d.sl_token()
        call(
            lib.sl_sampler_choose,
            self._live(),
            row.ctypes.data,
            row.shape[0],
            None if mask is None else mask.ctypes.data,
            ctypes.byref(out),
        )
        return out.value

    @property
    def info(self) -> Dict[str, Any]:
        """Counts of choices, and the first option that makes the host choose."""
        out = fill(d.sl_sampler_info)
        call(lib.sl_sampler_describe, self._live(), ctypes.byref(out))
        return {name: text(getattr(out, name)) for name, _ in out._fields_[1:]}


def text(value: Any) -> Any:
    """A field of a struct: texts as str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def token_array(tokens: Sequence[Token]) -> Any:
    """Tokens as an array of the library."""
    return (d.sl_token * len(tokens))(*tokens)


def allowed_words(allowed: Any, count: int) -> Any:
    """A boolean array as a bit mask of 32-bit words."""
    import numpy as np

    flags = np.asarray(allowed, dtype=bool)
    if flags.shape != (count,):
        raise InvalidError(f"the mask has shape {flags.shape}, wanted ({count},)")
    padded = np.zeros((count + 31) // 32 * 32, dtype=bool)
    padded[:count] = flags
    return np.packbits(padded, bitorder="little").view(np.uint32)
