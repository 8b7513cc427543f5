"""sluice: language models larger than memory, and tensor programs.

>>> import sluice
>>> with sluice.Model("models/fable") as model:
...     print(model.chat("What is 17 + 25?").content)
17 + 25 = 42.

docs/python.md explains the package; include/sluice/ is the API of the library underneath.
"""

from . import _declarations, ops
from .arrays import empty
from .chat import ChatStream, Delta, Message, ToolCall
from .errors import (
    BusyError,
    CancelledError,
    DeviceError,
    Error,
    FormatError,
    InvalidError,
    IOError,
    NoMemoryError,
    UnsupportedError,
)
from .generation import Completion, Logprob, TokenLogprobs
from .grammar import Grammar
from .graph import Graph, Symbol, Value
from .model import ExpertUses, Model, devices
from .program import Program, SizedProgram, TensorType
from .records import Record
from .sampling import OPTIONS, Sampler, SamplerOption
from .session import Session, SyncReport
from .stream import Stream

__version__: str = _declarations.SL_VERSION

__all__ = [
    "OPTIONS",
    "BusyError",
    "CancelledError",
    "ChatStream",
    "Completion",
    "Delta",
    "DeviceError",
    "Error",
    "ExpertUses",
    "FormatError",
    "Grammar",
    "Graph",
    "IOError",
    "InvalidError",
    "Logprob",
    "Message",
    "Model",
    "NoMemoryError",
    "Program",
    "Record",
    "Sampler",
    "SamplerOption",
    "Session",
    "SizedProgram",
    "Stream",
    "Symbol",
    "SyncReport",
    "TensorType",
    "TokenLogprobs",
    "ToolCall",
    "UnsupportedError",
    "Value",
    "__version__",
    "devices",
    "empty",
    "ops",
]
