"""The examples do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, name: str, *words: str, text: str = "") -> str:
    command = [sys.executable, str(root / "examples" / "python" / name), *words]
    done = subprocess.run(command, cwd=root, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def test_chat(root: Path) -> None:
    said = run(root, "chat.py", text="What is 17 + 25?\nHello!\n").splitlines()
    assert said[0] == "17 + 25 = 42." and len(said) == 2


def test_routing_heatmap(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "routing.png"
    run(root, "routing_heatmap.py", "models/fable", "Hello!", str(picture))
    assert picture.read_bytes()[:4] == b"\x89PNG"
