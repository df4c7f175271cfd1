"""The values of the section ``/interpreters`` that outlive a request: the interpreters, and the threads of scripts."""

from typing import Final, NamedTuple

from app.console.context import ConsoleContext
from app.console.kept_value import KeptValue
from app.console.memo import Memo
from app.console.views.interpreters import INTERPRETED, Interpreters, build_interpreters, list_documents
from app.control.worker import Worker
from app.store import Store

_MAX_RUNNING: Final = 2
MAX_SCRIPTS: Final = 4
"""Scripts of the playground that run or wait; further ones are refused."""


class InterpretersState(NamedTuple):
    """The values.

    Attributes:
        interpreters: The chain and the kinds.
        playground: Runs scripts, so that neither the event loop nor the worker of the other pages waits for them.
    """

    interpreters: Memo[Interpreters]
    playground: Worker


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
        Worker(_MAX_RUNNING, name="playground"),
    )


INTERPRETERS: Final = KeptValue(make_state)
