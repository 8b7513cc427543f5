"""Output that follows a JSON schema, a regular expression, a GBNF grammar or choices."""

import ctypes
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _declarations as d
from ._handle import Handle, Owner, create
from ._library import call, fill, lib

if TYPE_CHECKING:
    pass

#: Keywords of functions that generate, at most one of which is given.
KEYWORDS = ("json_schema", "regex", "grammar", "choices")
_MOST_FORCED = 256


class Grammar(Owner):
    """A compiled grammar, which threads and requests share.

    >>> numbers = sluice.Grammar(regex="[0-9]+")
    >>> model.generate("17 + 25 = ", grammar=numbers)
    """

    def __init__(
        self,
        gbnf: Optional[str] = None,
        *,
        json_schema: Any = None,
        regex: Optional[str] = None,
        choices: Optional[Sequence[str]] = None,
        ordered: bool = False,
        compact: bool = False,
        closed: bool = False,
    ) -> None:
        given = [
            (kind, value)
            for kind, value in (
                (d.SL_GRAMMAR_GBNF, gbnf),
                (d.SL_GRAMMAR_JSON_SCHEMA, json_schema),
                (d.SL_GRAMMAR_REGEX, regex),
                (d.SL_GRAMMAR_CHOICES, choices),
            )
            if value is not None
        ]
        if len(given) != 1:
            raise TypeError("give one of: a GBNF text, json_schema, regex, choices")
        kind, value = given[0]
        if kind == d.SL_GRAMMAR_JSON_SCHEMA:
            value, self.parse = _schema(value)
        else:
            self.parse = None
        if not isinstance(value, str):
            value = json.dumps(list(value) if kind == d.SL_GRAMMAR_CHOICES else value)
        options = fill(d.sl_grammar_options)
        options.ordered, options.compact, options.closed = ordered, compact, closed
        data = value.encode()
        self._handle = create(
            lib.sl_grammar_close,
            lib.sl_grammar_compile,
            kind,
            data,
            len(data),
            ctypes.byref(options),
        )

    #: Makes an object of a complete text: of a JSON schema a Python value or a pydantic model.
    parse: Optional[Callable[[str], Any]]


def _schema(schema: Any) -> Tuple[Any, Callable[[str], Any]]:
    """The schema of a dict, a text or a pydantic model, and what parses a text of it."""
    if hasattr(schema, "model_json_schema"):
        return schema.model_json_schema(), schema.model_validate_json
    return schema, json.loads


def grammar_of(options: Dict[str, Any]) -> Optional[Grammar]:
    """Takes the keywords of a grammar out of options, and compiles it."""
    given = {name: options.pop(name) for name in KEYWORDS if options.get(name) is not None}
    for name in KEYWORDS:
        options.pop(name, None)
    if len(given) > 1:
        raise TypeError(f"{' and '.join(given)}: give only one of them")
    if not given:
        return None
    ((name, value),) = given.items()
    if isinstance(value, Grammar):
        return value
    return Grammar(value) if name == "grammar" else Grammar(**{name: value})


class Constraint:
    """A text of a grammar that is being written, token by token."""

    def __init__(self, grammar: Grammar, vocabulary: Handle, vocab: int) -> None:
        count = max(vocab, lib.sl_grammar_vocabulary_size(vocabulary))
        self._words = (ctypes.c_uint32 * ((count + 31) // 32))()
        self.state = create(
            lib.sl_grammar_state_destroy,
            lib.sl_grammar_state_create,
            grammar._live(),
            vocabulary,
            keeps=(vocabulary,),
        )

    def mask(self) -> Any:
        """Which tokens may come next."""
        call(lib.sl_grammar_state_mask, self.state, self._words, len(self._words))
        return self._words

    def take(self, token: int, room: int) -> List[int]:
        """Accepts a token, and up to `room` tokens behind it to which there is no alternative."""
        call(lib.sl_grammar_state_accept, self.state, token)
        if room <= 0 or lib.sl_grammar_state_ended(self.state):
            return []
        room = min(room, _MOST_FORCED)
        out, count = (d.sl_token * room)(), ctypes.c_size_t()
        call(lib.sl_grammar_state_forced, self.state, out, room, ctypes.byref(count))
        forced = list(out[: count.value])
        for one in forced:
            call(lib.sl_grammar_state_accept, self.state, one)
        return forced

    @property
    def satisfied(self) -> bool:
        """Whether the text satisfies the grammar as it is."""
        return bool(lib.sl_grammar_state_satisfied(self.state))
