"""The real installation: pip builds a wheel from the sources.  SLUICE_LONG=1 runs it."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

CODE = """
import sluice
assert sluice.__file__.startswith({folder!r}), sluice.__file__
with sluice.Model({model!r}) as model:
    print(model.chat("What is 17 + 25?", temperature=0).content)
"""


@pytest.mark.skipif(os.environ.get("SLUICE_LONG") != "1", reason="SLUICE_LONG=1 builds a wheel")
def test_pip_install(root: Path, fable: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    kept = ("SLUICE_LIBRARY", "PYTHONPATH")
    clean = {name: value for name, value in os.environ.items() if name not in kept}
    subprocess.run([python, "-m", "pip", "install", "-q", str(root)], env=clean, check=True)
    code = CODE.format(folder=str(tmp_path), model=fable)
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert done.stdout == "17 + 25 = 42.\n", done.stderr


@pytest.mark.skipif(os.environ.get("SLUICE_LONG") != "1", reason="SLUICE_LONG=1 runs mypy")
def test_types(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    pip = [str(tmp_path / "venv" / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "mypy", "numpy"], check=True)
    package = os.environ["PYTHONPATH"]
    mypy = [str(tmp_path / "venv" / "bin" / "mypy"), "--strict", "-p", "sluice"]
    done = subprocess.run(mypy, cwd=package, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert sys.version_info >= (3, 9)


@pytest.mark.skipif(os.environ.get("SLUICE_LONG") != "1", reason="SLUICE_LONG=1 makes an sdist")
def test_an_sdist_has_all_sources(root: Path, tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("the sources are not a clone")
    venv.create(tmp_path / "venv", with_pip=True)
    python = [str(tmp_path / "venv" / "bin" / "python"), "-m"]
    subprocess.run([*python, "pip", "install", "-q", "build"], check=True)
    subprocess.run([*python, "build", "-s", "-o", str(tmp_path / "out"), str(root)], check=True)
    (archive,) = (tmp_path / "out").iterdir()
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    left_out = ("models/", "tests/", "docs/pictures/", ".")
    sources = {name for name in listed.stdout.split() if not name.startswith(left_out)}
    assert "engine/models/wire.h" in sources and sources <= names
