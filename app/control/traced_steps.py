"""Traces work in steps (`app.control.steps`), whose first part runs in the protocol and the rest in a task."""

from collections.abc import Awaitable, Generator
from functools import partial
from typing import Any, Final

from app.control.steps import Steps, T
from app.tracing.spans import CURRENT, Span, describe_failure


def trace_steps(span: Span, work: Steps[T]) -> Steps[T]:
    """Go on with work while a span is the current one, and end the span with the work.

    Between the steps the span is not the current one: the first step runs in the context of a connection, which other
    reviews share.
    """
    error = ""
    step = partial(next, work)
    try:
        while True:
            token = CURRENT.set(span)
            try:
                waiting = step()
            finally:
                CURRENT.reset(token)
            try:
                found = yield _Within(span, waiting)
            except Exception as failure:  # noqa: BLE001 - the work handles it where it waits
                step = partial(work.throw, failure)
            else:
                step = partial(work.send, found)
    except StopIteration as end:
        result: T = end.value
        return result
    except BaseException as failure:
        error = describe_failure(failure)
        raise
    finally:
        work.close()
        span.end(error)


class _Within:
    """An awaitable during which a span is the current one."""

    def __init__(self, span: Span, waiting: Awaitable[Any]) -> None:
        self._span: Final = span
        self._waiting: Final = waiting

    def __await__(self) -> Generator[Any, Any, Any]:
        token = CURRENT.set(self._span)
        try:
            return (yield from self._waiting.__await__())
        finally:
            CURRENT.reset(token)
