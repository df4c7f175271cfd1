"""Applying over a connection that fails, to a server that answers oddly."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply.crd_apply import (
    Applied,
    CRDChange,
    VersionChange,
    apply,
    compare,
    compare_releases,
    wait_established,
)
from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer, Asked
from tests.engines.crds.fetching import fetching
from tests.engines.crds.tarballs import build, crd, dotted, small

NAME = "works.work.karmada.io"


def made(*versions: str, stored: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": NAME, "resourceVersion": str(len(versions))},
        "spec": {
            "group": "work.karmada.io", "versions": [{"name": one, "served": True, "schema": {}} for one in versions], **spec,
        },
        "status": {"storedVersions": list(stored)},
    }  # fmt: skip


def only(before: Any, after: Any) -> CRDChange:
    (change,) = compare({NAME: before}, {NAME: after})
    return change


def test_changes_of_status_and_metadata_are_not_differences() -> None:
    assert compare({NAME: made("v1", stored=("v1",))}, {NAME: made("v1")}) == []


def test_crds_come_and_go() -> None:
    assert compare({}, {NAME: made("v1")}) == [CRDChange(NAME, "added", (VersionChange("v1", "added"),))]
    assert compare({NAME: made("v1", stored=("v1",))}, {}) == [CRDChange(NAME, "removed")]


def test_versions_come_go_and_change() -> None:
    after = made("v1", "v2")
    after["spec"]["versions"][0]["schema"] = {"a": 1}
    change = only(made("v1beta1", "v1"), after)
    assert change.versions == (
        VersionChange("v1beta1", "removed"),
        VersionChange("v1", "changed", ("schema",)),
        VersionChange("v2", "added"),
    )
    assert change.lost == ()


def test_a_stored_version_that_goes_is_lost() -> None:
    change = only(made("v1beta1", "v1", stored=("v1beta1", "v1")), made("v1"))
    assert change.lost == ("v1beta1",)
    assert list(change.format_lines()) == [
        f"changed  {NAME}",
        "  version v1beta1 removed",
        "  objects may be stored in v1beta1, which would be lost",
    ]


def test_other_members_of_the_spec_are_named() -> None:
    change = only(made("v1", scope="Cluster"), made("v1", conversion={}))
    assert (change.versions, change.fields) == ((), ("conversion", "scope"))


@given(
    st.lists(st.sampled_from(["v1", "v2", "v3"]), unique=True),
    st.lists(st.sampled_from(["v1", "v2", "v3"]), unique=True),
)
def test_a_difference_is_one_in_both_directions(one: list[str], other: list[str]) -> None:
    before, after = made(*one), made(*other)
    forth, back = compare({NAME: before}, {NAME: after}), compare({NAME: after}, {NAME: before})
    assert bool(forth) == bool(back) == (set(one) != set(other))
    assert compare({NAME: before}, {NAME: copy.deepcopy(before)}) == []


def test_an_entry_with_dotted_names_is_parsed_as_it_was_unpacked(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with fetching(cache, dotted(), normalize_dot=True) as fetched:
        found = cache.tarball(fetched.key)
    assert found is not None
    _, tree = archive.read_tree(found[1], normalize_dot=found[0].record.normalize_dot)
    assert list(tree.crds) == ["works.work.karmada.io"]


def test_a_patch_that_differs_is_a_change_of_its_crd() -> None:
    path = "crds/patches/webhook_in_works.yaml"
    changed = (small()[path] or b"").replace(b"/convert", b"/other")
    trees = [archive.read_tree(build(files))[1] for files in (small(), {**small(), path: changed})]
    assert compare_releases(trees[0], trees[0]) == []
    (change,) = compare_releases(*trees)
    assert (change.name, change.change, change.fields) == ("works.work.karmada.io", "changed", ("conversion",))


def test_a_patch_that_cannot_be_merged_is_an_error() -> None:
    _, tree = archive.read_tree(build({**small(), "crds/patches/webhook_in_works.yaml": b"{{other}}"}))
    with pytest.raises(CRDsError, match="webhook_in_works"):
        compare_releases(tree, tree)


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
