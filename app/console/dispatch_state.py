"""The values of the section ``/dispatch`` that outlive a request: compiled webhooks, bindings and findings."""

from typing import Final, NamedTuple

from app.console.kept_value import KeptValue
from app.console.memo import Memo
from app.console.views.cluster_map import FLEET_KINDS, Fleet, read_fleet
from app.console.views.dispatch_findings import LINTED, find_all
from app.dispatch.dispatcher import Dispatcher
from app.dispatch.factory import build_offline_dispatcher
from app.dispatch.lint.codes import Finding
from app.store import Store


class DispatchState(NamedTuple):
    """The values.

    Attributes:
        dispatcher: Keeps the compiled webhooks of the store.
        fleet: The bindings and exports.
        findings: The findings of ``fleethook lint``.
    """

    dispatcher: Dispatcher
    fleet: Memo[Fleet]
    findings: Memo[tuple[Finding, ...]]


def make_state(store: Store) -> DispatchState:
    """Return the values for a store, which compute nothing before they are needed."""
    return DispatchState(
        build_offline_dispatcher(store), Memo(store, FLEET_KINDS, read_fleet), Memo(store, LINTED, find_all)
    )


DISPATCH: Final = KeptValue(lambda context: make_state(context.store))
