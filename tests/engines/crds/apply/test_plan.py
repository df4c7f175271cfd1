"""The differences between the CRDs of a server and those of a release."""

import copy
from typing import Any

import pytest
import yaml

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply.crd_apply import (
    StoredVersionsError,
    apply,
    check_lost_versions,
    check_stored_versions,
    plan,
)
from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer, Asked
from tests.engines.crds.tarballs import crd

NAMES = [f"{plural}.work.karmada.io" for plural in ("as", "bs")]
CRDS: dict[str, Any] = {name: yaml.safe_load(crd(name.partition(".")[0], "work.karmada.io")) for name in NAMES}


@pytest.fixture
def listing(api: ApiServer) -> ApiServer:
    """The server, which also lists its CRDs."""

    def answer(asked: Asked, _times: int) -> Any:
        if asked.method == "GET" and asked.name == "customresourcedefinitions":
            return 200, {"items": list(api.crds.values())}
        return None

    api.disturb = answer
    return api


def other(name: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"group": group, "names": {"plural": plural}}}


async def test_a_server_without_crds_gets_all_of_them(listing: ApiServer, connection: Connection) -> None:
    assert [(one.name, one.change) for one in await plan(connection, CRDS, [])] == [(name, "added") for name in NAMES]
    assert listing.crds == {}


async def test_a_server_with_the_release_has_no_differences(listing: ApiServer, connection: Connection) -> None:
    patches = [Patch("p", NAMES[0], {"spec": {"conversion": {"strategy": "None"}}})]
    await apply(connection, CRDS, patches)
    before = copy.deepcopy(listing.crds)
    assert await plan(connection, CRDS, patches) == []
    assert listing.crds == before


async def test_a_patch_is_part_of_the_plan(listing: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, [])
    (change,) = await plan(connection, CRDS, [Patch("p", NAMES[1], {"spec": {"conversion": {"strategy": "None"}}})])
    assert (change.name, change.change, change.fields) == (NAMES[1], "changed", ("conversion",))


async def test_only_crds_of_karmada_and_of_the_release_are_compared(listing: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, [])
    for name in ("cs.work.karmada.io", "ds.other.karmada.io", "es.example.org", "fs.notkarmada.io"):
        listing.crds[name] = other(name)
    found = [(one.name, one.change) for one in await plan(connection, CRDS, [])]
    assert found == [("cs.work.karmada.io", "removed"), ("ds.other.karmada.io", "removed")]


def store_in(api: ApiServer, name: str, *versions: str) -> None:
    api.crds[name]["status"] = {"storedVersions": list(versions)}


async def test_a_release_without_a_stored_version_is_planned_without_a_dry_run_and_refused(
    listing: ApiServer, connection: Connection
) -> None:
    await apply(connection, CRDS, [])
    stored = listing.crds[NAMES[0]]
    stored["spec"]["versions"].append({"name": "v1old", "served": False, "storage": False})
    listing.crds[NAMES[0]]["status"] = {"storedVersions": ["v1alpha1", "v1old"]}
    listing.asked.clear()
    changes = await plan(connection, CRDS, [])
    assert [(one.name, one.lost) for one in changes] == [(NAMES[0], ("v1old",))]
    assert [asked.name for asked in listing.asked if asked.method == "PATCH"] == [NAMES[1]]
    text = rf"objects may be stored in versions that the tarball does not have \({NAMES[0]}: v1old\): migrate"
    with pytest.raises(StoredVersionsError, match=f"{text} them first, or give --force") as raised:
        check_lost_versions(changes)
    assert raised.value.exit is Exit.ARCHIVE


async def test_a_controller_refuses_it_by_reading_one_crd_at_a_time(api: ApiServer, connection: Connection) -> None:
    await apply(connection, CRDS, [])
    await check_stored_versions(connection, CRDS, [])

    def answer(asked: Asked, _times: int) -> Any:
        stored = {**CRDS[NAMES[0]], "status": {"storedVersions": ["v0"]}}
        return (200, stored) if asked.name == NAMES[0] else (404, {"message": "no"})

    api.disturb = answer
    api.asked.clear()
    with pytest.raises(StoredVersionsError, match=f"{NAMES[0]}: v0.*run `crds apply --force`"):
        await check_stored_versions(connection, CRDS, [])
    assert [(asked.method, asked.name) for asked in api.asked] == [("GET", name) for name in NAMES]


async def test_a_patch_that_does_not_fit_is_refused_before_any_request(api: ApiServer, connection: Connection) -> None:
    wrong = [Patch("p.yaml", NAMES[0], {"spec": [1]})]
    for check in (plan, check_stored_versions):
        with pytest.raises(CRDsError, match=r"p\.yaml does not fit") as raised:
            await check(connection, CRDS, wrong)  # type: ignore[operator]
        assert raised.value.exit is Exit.ARCHIVE
    assert api.asked == []
