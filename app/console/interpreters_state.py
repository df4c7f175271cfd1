"""The values of the section ``/interpreters`` that outlive a request: the chain of interpreters, and the sandbox."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from starlette.requests import Request

from app.console.memo import Memo
from app.console.rendering import find_context
from app.console.views.interpreters import INTERPRETED, Interpreters, build_interpreters, list_documents
from app.interpret.playground.sandbox import MAX_AT_ONCE, Sandbox
from app.settings import Settings
from app.store import Store

_MAX_WAITING: Final = 2
"""Threads in addition to the running scripts, so that others are told at once to come again."""


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


def make_state(store: Store) -> InterpretersState:
    """Return the values for a store, which compute nothing before they are needed."""
    namespace = str(Settings.model_fields["karmada_namespace"].default)

    def compute(copy: Store) -> Interpreters:
        return build_interpreters(list_documents(copy), namespace=namespace)

    return InterpretersState(
        Memo(store, INTERPRETED, compute), Sandbox(), ThreadPoolExecutor(MAX_AT_ONCE + _MAX_WAITING, "playground")
    )


def find_state(request: Request) -> InterpretersState:
    """Return the values of the application that answers a request; the first request makes them."""
    state = request.app.state
    if not hasattr(state, "interpreters"):
        state.interpreters = make_state(find_context(request).store)
    found: InterpretersState = state.interpreters
    return found
