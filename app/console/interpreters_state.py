"""The values of the section ``/interpreters`` that outlive a request: the chain of interpreters, and the sandbox."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from app.console.context import ConsoleContext
from app.console.kept_value import KeptValue
from app.console.memo import Memo
from app.console.views.interpreters import INTERPRETED, Interpreters, build_interpreters, list_documents
from app.interpret.playground.sandbox import MAX_AT_ONCE, Sandbox
from app.store import Store

_MAX_WAITING: Final = 2
"""Threads in addition to the running scripts, so that others get their refusal at once."""


class InterpretersState(NamedTuple):
    """The values.

    Attributes:
        interpreters: The chain and the kinds.
        sandbox: Runs the scripts of the playground.
        threads: Wait for the scripts, so that neither the event loop nor the worker of the other pages does.
    """

    interpreters: Memo[Interpreters]
    sandbox: Sandbox
    threads: ThreadPoolExecutor


def make_state(context: ConsoleContext) -> InterpretersState:
    """Return the values for the objects and interpreters of a console; nothing is computed before it is needed."""

    def compute(copy: Store) -> Interpreters:
        return build_interpreters(
            list_documents(copy),
            interpreters=context.interpreters,
            namespace=context.karmada_namespace,
            bundle=context.bundle,
            conventions=context.conventions,
        )

    return InterpretersState(
        Memo(context.store, INTERPRETED, compute),
        Sandbox(),
        ThreadPoolExecutor(MAX_AT_ONCE + _MAX_WAITING, "playground"),
    )


INTERPRETERS: Final = KeptValue(make_state)
