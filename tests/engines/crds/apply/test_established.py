"""Waiting until CRDs are established."""

from typing import Any

import pytest
import yaml

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply.crd_apply import wait_established
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ESTABLISHED, ApiServer
from tests.engines.crds.tarballs import crd
from tests.waiting import NET, with_patience_async

NAMES = [f"{plural}.work.karmada.io" for plural in ("as", "bs", "cs")]

CRDS = {name: yaml.safe_load(crd(name.partition(".")[0], "work.karmada.io")) for name in NAMES}


async def failure(awaited: Any) -> tuple[Exit, bool, str]:
    with pytest.raises(CRDsError) as raised:
        await awaited
    return raised.value.exit, raised.value.transient, str(raised.value)


async def test_waiting_ends_when_all_are_established(api: ApiServer, connection: Connection) -> None:
    api.crds = dict(CRDS)
    never: list[Any] = []
    api.disturb = lambda asked, times: (
        (200, {"status": {"conditions": never}}) if asked.name == NAMES[1] and times < 2 else None
    )  # fmt: skip
    await wait_established(connection, NAMES, seconds=NET)
    assert [asked.name for asked in api.asked] == [*NAMES, NAMES[1], NAMES[1]]


@pytest.mark.parametrize(
    "disturbance", ["cut", (503, {"reason": "ServiceUnavailable", "message": "starting"}), (200, "<html>")]
)
async def test_a_server_that_is_away_for_a_while_is_waited_for(
    api: ApiServer, connection: Connection, disturbance: Any
) -> None:
    api.crds = dict(CRDS)
    api.disturb = lambda _asked, times: disturbance if times < 3 else None
    await wait_established(connection, NAMES, seconds=NET)
    assert len(api.asked) == 12


async def test_a_timeout_lists_the_missing_crds_with_their_conditions(api: ApiServer, connection: Connection) -> None:
    api.crds = dict(CRDS)
    waiting = [ESTABLISHED[0], {"type": "Established", "status": "False", "reason": "Installing", "message": "soon"}]
    told = {NAMES[0]: (200, {"status": {"conditions": waiting}}), NAMES[2]: (200, {}), NAMES[1]: None}
    api.disturb = lambda asked, _: told[asked.name]
    first = "NamesAccepted=True (NoConflicts: no conflicts found), Established=False (Installing: soon)"
    words = f"{NAMES[0]}: {first}; {NAMES[2]}: no conditions yet"
    found = await with_patience_async(
        lambda seconds: failure(wait_established(connection, NAMES, seconds=seconds)), lambda found: words in found[2]
    )
    assert (found[:2], found[2].partition(" s: ")[2]) == ((Exit.NETWORK, True), words)


async def test_a_timeout_reports_why_the_server_did_not_answer(
    server: tuple[ApiServer, str], connection: Connection
) -> None:
    api, address = server
    api.crds = {NAMES[0]: CRDS[NAMES[0]]}
    api.disturb = lambda asked, _: "cut" if asked.name == NAMES[0] else None
    words = f"{NAMES[0]}: {address}: Server disconnected; {NAMES[1]}: the server no longer has this CRD"
    code, _, text = await with_patience_async(
        lambda seconds: failure(wait_established(connection, NAMES[:2], seconds=seconds)),
        lambda found: words in found[2],
    )
    assert (code, text.partition(" s: ")[2]) == (Exit.NETWORK, words)


async def test_names_that_are_not_accepted_end_the_waiting(api: ApiServer, connection: Connection) -> None:
    api.crds = dict(CRDS)
    refused = {"type": "NamesAccepted", "status": "False", "reason": "KindConflict", "message": '"A" is already in use'}
    conflict = {"status": {"conditions": [refused, {"type": "Established", "status": "True"}]}}
    api.disturb = lambda asked, _: (200, conflict) if asked.name == NAMES[0] else None
    words = f'{NAMES[0]}: the server does not accept its names: KindConflict: "A" is already in use'
    assert await failure(wait_established(connection, NAMES, seconds=600)) == (Exit.HTTP, False, words)


async def test_names_that_are_accepted_after_all_are_no_failure(api: ApiServer, connection: Connection) -> None:
    api.crds = dict(CRDS)
    refused = {"type": "NamesAccepted", "status": "False", "reason": "KindConflict", "message": "of what it was before"}
    api.disturb = lambda _asked, times: (200, {"status": {"conditions": [refused]}}) if times == 0 else None
    await wait_established(connection, NAMES, seconds=NET)
