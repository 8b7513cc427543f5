"""The declarations agree with what a C compiler makes of the headers."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sluice import _declarations as d


def layout() -> str:
    """Sizes and offsets as make_declarations.py --check-c prints them."""
    lines = []
    for name, kind in vars(d).items():
        if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
            lines.append(f"{name} {ctypes.sizeof(kind)}")
            lines += [
                f"{name}.{field[0]} {getattr(kind, field[0]).offset}" for field in kind._fields_
            ]
    return "\n".join(sorted(lines))


def test_structs_have_the_layout_of_c(root: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    maker = [sys.executable, str(root / "python" / "make_declarations.py")]
    source = subprocess.run(
        [*maker, str(root / "include" / "sluice"), "--check-c"], capture_output=True, check=True
    ).stdout
    (tmp_path / "layout.c").write_bytes(source)
    program = str(tmp_path / "layout")
    include = f"-I{root / 'include'}"
    subprocess.run([compiler, include, "-o", program, str(tmp_path / "layout.c")], check=True)
    printed = subprocess.run([program], capture_output=True, check=True, text=True).stdout
    assert "\n".join(sorted(printed.split("\n"))).strip() == layout().strip()
    assert len(printed.split("\n")) > 400


def test_constants_have_the_values_of_c(root: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    numbers = {n: v for n, v in vars(d).items() if n.startswith("SL_") and isinstance(v, int)}
    headers = "".join(
        f'#include "sluice/{path.name}"\n' for path in (root / "include" / "sluice").glob("*.h")
    )
    checks = "".join(f'_Static_assert({n} == {v}, "{n}");\n' for n, v in numbers.items())
    (tmp_path / "constants.c").write_text(headers + checks)
    command = [compiler, "-fsyntax-only", f"-I{root / 'include'}", str(tmp_path / "constants.c")]
    subprocess.run(command, check=True)
    assert len(numbers) > 30


def test_functions_of_all_headers_are_declared(root: Path) -> None:
    text = "".join(path.read_text() for path in (root / "include" / "sluice").glob("*.h"))
    assert text.count("\nSL_API") == len(d.FUNCTIONS)


def test_another_library_is_refused(root: Path) -> None:
    code = "import sluice"
    environment = {**os.environ, "SLUICE_LIBRARY": "libc.so.6"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "libc.so.6 is not the library of this package" in done.stderr
