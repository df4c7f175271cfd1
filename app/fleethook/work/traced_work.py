"""Traces work (`fleethook.work.pausing`), whose first part runs in the protocol and the rest in a task."""

from collections.abc import Coroutine
from typing import Any

from fleethook.tracing.spans import CURRENT, Span, describe_failure, enter_span
from fleethook.work.pausing import Done, T, Work, begin


def begin_in_span(span: Span, work: Work[T]) -> Done[T] | Coroutine[Any, Any, T]:
    """Go on with work as `begin` does, while a span is the current one, and end the span with the work.

    The span is not the current one between the first part and the rest: the first part runs in the context of a
    connection, which other reviews share.

    Args:
        span: The span.
        work: The work.

    Returns:
        The result, or a coroutine that goes on with the work and returns the result.

    Raises:
        Exception: The work has failed before it waited for anything.
    """
    token = CURRENT.set(span)
    try:
        begun = begin(work)
    except BaseException as error:
        span.end(describe_failure(error))
        raise
    finally:
        CURRENT.reset(token)
    if isinstance(begun, Done):
        span.end()
        return begun
    return _finish_in_span(span, begun)


async def _finish_in_span(span: Span, begun: Coroutine[Any, Any, T]) -> T:
    with enter_span(span):
        return await begun
