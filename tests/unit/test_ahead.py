"""Reading ahead changes when items are made, and nothing else."""

from __future__ import annotations

import threading
import time

import pytest

from elmokit.pretraining.ahead import ahead


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "reading ahead"]


def wait_until(promised, *, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not promised() and time.monotonic() < end:
        time.sleep(0.01)
    return promised()


def test_the_items_come_in_their_order():
    assert list(ahead(range(100), 3)) == list(range(100))
    assert wait_until(lambda: not threads())


def test_no_more_is_made_than_asked_for():
    made = []

    def items():
        for i in range(100):
            made.append(i)
            yield i

    reader = ahead(items(), 3)
    assert next(reader) == 0
    assert wait_until(lambda: len(made) == 5)  # one given, three waiting, one in the thread's hand
    time.sleep(0.3)
    assert len(made) == 5
    reader.close()
    assert wait_until(lambda: not threads())


def test_an_error_is_raised_where_the_items_are_read():
    def items():
        yield 1
        raise ValueError("the text is damaged")

    reader = ahead(items(), 3)
    assert next(reader) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(reader)


def test_a_reader_that_is_forgotten_ends_its_thread():
    reader = ahead(iter(int, 1), 2)
    next(reader)
    assert threads()
    del reader
    assert wait_until(lambda: not threads())
