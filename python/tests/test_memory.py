"""Programs use the memory of arrays: addresses are compared."""

import ctypes

import numpy as np
import pytest
import sluice
from sluice._library import lib
from sluice.arrays import address_of, is_aligned


def program() -> sluice.Program:
    graph = sluice.Graph("sum")
    graph.output("y", graph.input("x", (64, 8)) + graph.input("z", (64, 8)))
    return graph.compile()


def filled(value: float) -> np.ndarray:
    made = sluice.empty((64, 8))
    made[...] = value
    return made


def result_address(of: sluice.Program, name: str = "y") -> int:
    return int(lib.sl_compiled_get(of._live(), name.encode(), None))


@pytest.mark.parametrize("dtype", ["f32", np.int8, np.complex64, "bool"])
def test_empty_is_aligned(dtype: object) -> None:
    assert all(is_aligned(sluice.empty((3, count), dtype)) for count in range(20))


def test_outputs_are_the_memory_that_is_returned() -> None:
    f = program()
    first = f(filled(1), filled(2))
    assert result_address(f) == address_of(first)
    second = f(filled(5), filled(2))
    assert result_address(f) == address_of(second) != address_of(first)
    assert (first == 3).all() and (second == 7).all()  # the first result is left alone
    out = filled(0)
    assert f(filled(1), filled(1), out=out) is out
    assert result_address(f) == address_of(out) and (out == 2).all()


def test_inputs_are_read_in_place() -> None:
    f = program()
    x, z = filled(1), filled(2)
    f(x, z)
    x[...] = 10  # no call tells the program
    out = filled(0)
    f.bind("y", out)
    sluice._library.call(lib.sl_compiled_run, f._live())
    assert (out == 12).all()


def test_other_arrays_are_copied() -> None:
    f = program()
    memory = np.zeros(64 * 8 + 1, np.float32)
    start = 1 if is_aligned(memory) else 0
    unaligned = memory[start : start + 512].reshape(64, 8)
    unaligned[...] = 4
    strided = np.full((8, 64), 5, np.float32).T
    assert not is_aligned(unaligned) and not is_aligned(strided)
    assert (f(unaligned, strided) == 9).all()
    assert f(strided, strided, out=unaligned) is unaligned and (unaligned == 10).all()
    assert (f(filled(1), strided) == 6).all()
    with pytest.raises(sluice.InvalidError, match="sluice.empty makes one"):
        f.bind("x", unaligned)


def test_weights_and_states_are_bound() -> None:
    graph = sluice.Graph()
    w = filled(3)
    state = graph.state("count", (64, 8))
    graph.output("y", sluice.ops.assign(state, state + graph.weight("w", w)))
    f = graph.compile()
    count = filled(0)
    f.bind("count", count)
    f()
    assert (count == 3).all()  # the program has updated it where it is
    w[...] = 4
    f()
    assert (count == 7).all()


def test_shared_memory_lives_as_long_as_any_program() -> None:
    def graph() -> sluice.Graph:
        made = sluice.Graph()
        w, state = made.weight("w", filled(3)), made.state("s", (64, 8))
        made.output("y", made.input("x", (64, 8)) * w + state)
        return made

    def pressure() -> None:
        assert all(one.size for one in [filled(9) for _ in range(200)])

    first = graph().compile()
    second = graph().compile(share=first)
    del first
    pressure()
    assert (second(filled(1)) == 3).all()
    third = graph().compile(share=second)
    state = filled(5)
    third.bind("w", filled(7))
    third.bind("s", state)
    del third, state
    pressure()
    assert (second(filled(1)) == 12).all()


def test_what_is_written_is_no_read_only_array() -> None:
    graph = sluice.Graph()
    state = graph.state("count", (64, 8))
    graph.output("y", sluice.ops.assign(state, state + 1.0))
    f = graph.compile()
    fixed = filled(0)
    fixed.flags.writeable = False
    for name in ("count", "y"):
        with pytest.raises(TypeError, match=f"'{name}': .* read-only"):
            f.bind(name, fixed)


class Exporter:
    """Memory of something that is not NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> object:
        return self.array.__dlpack_device__()


def test_dlpack() -> None:
    f = program()
    x = filled(1)
    y = f(Exporter(x), filled(1))
    assert address_of(f._bound["x"]) == address_of(x)
    x[...] = 2
    again = np.from_dlpack(y)
    assert again.ctypes.data == y.ctypes.data and (again == 2).all()


def test_out_that_does_not_fit() -> None:
    f = program()
    with pytest.raises(sluice.InvalidError, match="'y' has the shape"):
        f(filled(1), filled(1), out=sluice.empty((8, 64)))
    fixed = filled(0)
    fixed.flags.writeable = False
    with pytest.raises(TypeError, match="can be written"):
        f(filled(1), filled(1), out=fixed)


def test_memory_lives_as_long_as_it_is_used() -> None:
    f = program()
    f(filled(1), filled(2))
    pressure = [filled(9) for _ in range(50)]
    assert (f() == 3).all() and len(pressure) == 50
    assert ctypes.sizeof(ctypes.c_void_p) == 8
