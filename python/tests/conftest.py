"""What the tests share: the model of the project, the program, the shared models."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import numpy as np
import pytest
import sluice

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def fable() -> str:
    return str(ROOT / "models" / "fable")


@pytest.fixture(scope="session")
def model(fable: str) -> Iterator[sluice.Model]:
    with sluice.Model(fable, sessions=4) as opened:
        yield opened


@pytest.fixture
def single(fable: str) -> Iterator[sluice.Model]:
    """As the program opens it: with one session."""
    with sluice.Model(fable) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_fable() -> Path:
    folder = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared")) / "models" / "fable"
    if not (folder / "reference.safetensors").exists():
        pytest.skip("there are no shared models")
    return folder


@pytest.fixture(scope="session")
def program() -> Callable[..., Dict[str, Any]]:
    """Runs the program, and reads the JSON that it prints."""
    path = os.environ.get("SLUICE_PROGRAM", str(ROOT / "build" / "sluice"))
    if not Path(path).exists():
        pytest.skip("the program is not built")

    def run(*words: str) -> Dict[str, Any]:
        command = [path, words[0], "--json", *words[1:]]
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        found: Dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def read_safetensors(path: Path) -> Dict[str, np.ndarray]:
    """The f32 and i32 tensors of a file."""
    data = path.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    found = {}
    for name, item in json.loads(data[8 : 8 + header_bytes]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + header_bytes + offset for offset in item["data_offsets"])
        kind = {"F32": np.float32, "I32": np.int32}[item["dtype"]]
        found[name] = np.frombuffer(data[start:end], kind).reshape(item["shape"])
    return found
