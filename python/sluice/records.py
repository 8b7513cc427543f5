"""Structs that the library fills in, as objects."""

from types import SimpleNamespace
from typing import Any, Dict

from .sampling import text


class Record(SimpleNamespace):
    """The fields of a struct by name; include/sluice/sluice.h explains them."""

    def __init__(self, struct: Any) -> None:
        super().__init__(
            **{
                name: text(getattr(struct, name))
                for name, _ in struct._fields_
                if name != "struct_size"
            }
        )

    def _asdict(self) -> Dict[str, Any]:
        return dict(vars(self))
