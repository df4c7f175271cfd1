"""Notes the threads in which functions run, without replacing them."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def on_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def watch_calls(*functions: Callable[..., Any]) -> Iterator[dict[str, list[bool]]]:
    """Note for each call of some functions whether it is on the event loop. Threads must start within the context."""
    names = {one.__code__: one.__name__ for one in functions}
    seen: dict[str, list[bool]] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and (name := names.get(frame.f_code)):
            seen.setdefault(name, []).append(on_loop())

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
