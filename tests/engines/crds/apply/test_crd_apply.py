"""Applying over a connection that fails, to a server that answers oddly."""

from typing import Any

import pytest
import yaml

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply.crd_apply import Applied, apply, wait_established
from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer, Asked
from tests.engines.crds.tarballs import crd

NAMES = [f"{plural}.work.karmada.io" for plural in ("as", "bs", "cs")]
CRDS = {name: yaml.safe_load(crd(name.partition(".")[0], "work.karmada.io")) for name in NAMES}
PATCHES = [Patch("p", NAMES[1], {"spec": {"conversion": {"strategy": "Webhook"}}})]


async def failure(awaited: Any) -> tuple[Exit, bool, str]:
    with pytest.raises(CRDsError) as raised:
        await awaited
    return raised.value.exit, raised.value.transient, str(raised.value)


async def test_all_are_applied_before_one_is_patched(api: ApiServer, connection: Connection) -> None:
    assert await apply(connection, CRDS, PATCHES) == [
        Applied(NAMES[0], "created", patched=False),
        Applied(NAMES[1], "created", patched=True),
        Applied(NAMES[2], "created", patched=False),
    ]
    applied = {"fieldManager": "karmada-operator", "force": "true"}
    assert [asked for asked in api.asked if asked.method == "PATCH"] == [
        *(Asked("PATCH", name, "application/apply-patch+yaml", applied, CRDS[name]) for name in NAMES),
        Asked(
            "PATCH", NAMES[1], "application/strategic-merge-patch+json", {"fieldManager": "karmada-operator"},
            PATCHES[0].body,
        ),
    ]  # fmt: skip


async def test_the_second_time_nothing_is_changed(api: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, PATCHES)
    again = await apply(connection, CRDS, PATCHES)
    assert [(one.result, one.patched) for one in again] == [("unchanged", name == NAMES[1]) for name in NAMES]


async def test_a_change_of_the_patch_alone_is_a_change(api: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, [])
    assert [one.result for one in await apply(connection, CRDS, PATCHES)] == ["unchanged", "configured", "unchanged"]


async def test_a_status_that_is_written_meanwhile_is_no_change(api: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, [])

    def written(asked: Asked, _: int) -> None:
        if asked.method == "PATCH":
            stored = api.crds[asked.name]
            status = {"manager": "kube-apiserver", "operation": "Update", "subresource": "status"}
            api.crds[asked.name] = {
                **stored,
                "metadata": {**stored["metadata"], "resourceVersion": "99", "managedFields": [status]},
            }

    api.disturb = written
    assert [one.result for one in await apply(connection, CRDS, [])] == ["unchanged"] * 3


async def test_fields_that_get_another_owner_are_a_change(api: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, [])

    def taken(asked: Asked, _: int) -> None:
        if asked.method == "PATCH":
            api.crds[asked.name]["metadata"]["managedFields"] = [{"manager": "karmada-operator", "operation": "Apply"}]

    api.disturb = taken
    assert [one.result for one in await apply(connection, CRDS, [])] == ["configured"] * 3


async def test_dry_run_sends_a_new_crd_with_its_patch(api: ApiServer, connection: Connection) -> None:
    found = await apply(connection, CRDS, PATCHES, dry_run=True)
    assert found == [Applied(name, "created", patched=name == NAMES[1]) for name in NAMES]
    assert api.crds == {}
    tried = [asked for asked in api.asked if asked.method == "PATCH"]
    assert {asked.query["dryRun"] for asked in tried} == {"All"}
    assert [asked.body["spec"].get("conversion") for asked in tried] == [None, {"strategy": "Webhook"}, None]


@pytest.mark.parametrize(
    ("disturbance", "code", "transient", "words"),
    [
        ((403, {"reason": "Forbidden", "message": "no"}), Exit.HTTP, False, "403 Forbidden: no"),
        ((500, "oops"), Exit.HTTP, True, "500: oops"),
        ((200, "<html>"), Exit.HTTP, False, "{address} does not answer like an apiserver"),
        ((404, {"reason": "NotFound", "message": "gone"}), Exit.HTTP, False, "the server has no such CRD"),
        ("cut", Exit.NETWORK, True, "{address}: Server disconnected"),
    ],
)
async def test_a_failure_at_a_crd_lists_the_applied_crds(
    server: tuple[ApiServer, str], connection: Connection, disturbance: Any, code: Exit, transient: bool, words: str
) -> None:
    api, address = server
    api.disturb = lambda asked, _: disturbance if asked[:2] == ("PATCH", NAMES[2]) else None
    told = f"failed to apply karmada crds, err: {NAMES[2]}: {words.format(address=address)} "
    done = f"(2 of 3 CRDs had been applied: {NAMES[0]}, {NAMES[1]}; running it again is safe)"
    assert await failure(apply(connection, CRDS, PATCHES)) == (code, transient, told + done)


async def test_a_failure_at_a_patch_lists_the_patched_crds(api: ApiServer, connection: Connection) -> None:
    patches = [*PATCHES, Patch("q", NAMES[2], {"spec": {"a": 1}})]
    refused = (422, {"reason": "Invalid", "message": "no"})
    api.disturb = lambda asked, times: refused if (asked.method, asked.name, times) == ("PATCH", NAMES[2], 1) else None
    done = f"3 of 3 CRDs had been applied: {', '.join(NAMES)}; patched: {NAMES[1]}"
    words = f"failed to patch karmada crds, err: {NAMES[2]}: 422 Invalid: no ({done}; running it again is safe)"
    assert await failure(apply(connection, CRDS, patches)) == (Exit.HTTP, False, words)


async def test_a_patch_that_cannot_be_merged_fails_before_any_request(api: ApiServer, connection: Connection) -> None:
    code, _, text = await failure(apply(connection, CRDS, [Patch("p.yaml", NAMES[0], {"spec": [1]})]))
    assert (code, text.partition(":")[0], api.asked) == (Exit.ARCHIVE, f"p.yaml does not fit {NAMES[0]}", [])


@pytest.mark.parametrize(
    "answer", [[], "text", 5, None, {"metadata": 5, "spec": []}, {"metadata": {"managedFields": 3}}]
)
async def test_answers_of_any_shape_do_no_harm(api: ApiServer, connection: Connection, answer: Any) -> None:
    api.disturb = lambda asked, _: (
        (200, [answer]) if asked.method == "GET" else (200, {**CRDS[NAMES[0]], "status": answer})
    )
    assert [one.result for one in await apply(connection, CRDS, [])] == ["configured"] * 3
    api.disturb = lambda _asked, _times: (200, {"status": {"conditions": [answer, {"type": answer, "status": {}}]}})
    code, _, text = await failure(wait_established(connection, NAMES[:1], seconds=0.3))
    assert (code, text.partition(":")[0]) == (Exit.NETWORK, "not Established within 0.3 s")
