"""Reading ahead: the next items are made by a thread while the ones before are worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

LOOK_UP_SECONDS = 0.1
"""How often a waiting thread looks whether anybody still waits for it."""


@dataclass(frozen=True)
class _Ended:
    error: BaseException | None


def ahead(items: Iterable[T], n: int) -> Generator[T]:
    """The same items in the same order, up to `n` of them made before they are asked for."""
    made: queue.Queue[T | _Ended] = queue.Queue(n)
    closed = threading.Event()
    thread = threading.Thread(target=_make, args=(items, made, closed), name="reading ahead")
    thread.start()
    try:
        while not isinstance(item := made.get(), _Ended):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        if thread is not threading.current_thread():  # where a forgotten reader happens to be collected
            thread.join()


def _make(items: Iterable[T], made: queue.Queue[T | _Ended], closed: threading.Event) -> None:
    try:
        for item in items:
            if not _put(item, made, closed):
                return
    except BaseException as error:  # noqa: BLE001 - it is raised where the items are read
        _put(_Ended(error), made, closed)
    else:
        _put(_Ended(None), made, closed)


def _put(item: T | _Ended, made: queue.Queue[T | _Ended], closed: threading.Event) -> bool:
    # A reader that was forgotten rather than closed must not keep the interpreter from ending.
    while not closed.is_set() and threading.main_thread().is_alive():
        try:
            made.put(item, timeout=LOOK_UP_SECONDS)
            return True
        except queue.Full:
            continue
    return False
