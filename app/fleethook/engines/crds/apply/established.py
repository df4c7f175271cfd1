"""Waits until the API server has established the CRDs (condition ``Established``)."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply import crd_client
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON, as_object

# Polling survives a broken connection; a watch would have to be resumed.
_POLL_SECONDS: Final = 0.2
# The server sets NamesAccepted after it stores the names: until then the condition may be about the former names.
_SETTLING_SECONDS: Final = 1.0


async def wait_established(connection: Connection, names: Iterable[str], *, seconds: float) -> None:
    """Wait until every CRD has the conditions ``Established`` and ``NamesAccepted``.

    Args:
        connection: Connection to the API server.
        names: Names of the CRDs.
        seconds: The longest time to wait.

    Raises:
        CRDsError: HTTP with the server's message once it refuses the names of a CRD; NETWORK after ``seconds``, with
            the conditions of the CRDs that are not established.
    """
    pending = dict.fromkeys(names, "not looked at")
    try:
        async with asyncio.timeout(seconds):
            await _poll(connection, pending)
    except TimeoutError:
        missing = "; ".join(f"{name}: {state}" for name, state in pending.items())
        raise CRDsError(Exit.NETWORK, f"not Established within {seconds:g} s: {missing}", transient=True) from None


async def _poll(connection: Connection, pending: dict[str, str]) -> None:
    clock = asyncio.get_running_loop().time
    settled = clock() + _SETTLING_SECONDS
    while True:
        for name in list(pending):
            asked = clock()
            conditions = await _read_conditions(connection, name, pending)
            if conditions is None:
                continue
            refused = _find_refusal(conditions)
            if refused and asked >= settled:
                raise CRDsError(Exit.HTTP, f"{name}: the server does not accept its names: {refused}")
            if not refused and as_object(conditions.get("Established")).get("status") == "True":
                del pending[name]
            else:
                pending[name] = ", ".join(map(_format_condition, conditions.values())) or "no conditions yet"
        if not pending:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _read_conditions(connection: Connection, name: str, pending: dict[str, str]) -> dict[str, JSON] | None:
    """Return the conditions by type; without a response, record the reason in ``pending`` and return None."""
    try:
        found = await crd_client.find(connection, name)
    except CRDsError as error:
        # A server that restarts answers with various errors.
        pending[name] = str(error).removeprefix(f"{name}: ")
        return None
    if found is None:
        pending[name] = "it is not there any more"
        return None
    conditions = as_object(found.get("status")).get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    return {str(one.get("type")): one for one in listed if isinstance(one, dict)}


def _find_refusal(conditions: Mapping[str, JSON]) -> str:
    accepted = as_object(conditions.get("NamesAccepted"))
    return f"{accepted.get('reason')}: {accepted.get('message')}" if accepted.get("status") == "False" else ""


def _format_condition(condition: JSON) -> str:
    found = as_object(condition)
    reason = f" ({found['reason']}: {found.get('message')})" if found.get("reason") else ""
    return f"{found.get('type')}={found.get('status')}{reason}"
