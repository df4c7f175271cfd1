"""Applying the CRDs of a cached tarball to the API server of an instance."""

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.certificates.certificate_authority import new_authority
from fleethook.cluster.connection import RestConfig
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.apply.crd_apply import StoredVersionsError
from fleethook.engines.crds.apply.instance_server import Target
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller import applier as applier_module
from fleethook.engines.crds.controller.applier import Applier
from fleethook.engines.crds.controller.instance_outcomes import report_applied
from fleethook.engines.crds.controller.verifier import Verifier
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.fetch import Fetched
from fleethook.engines.crds.tarball_source import Source
from fleethook.model.operator import KARMADA
from tests.engines.crds.apply.apiserver import ApiServer, Asked, serving
from tests.engines.crds.fetching import bring
from tests.engines.crds.origin import serving as serving_origin
from tests.engines.crds.origin import tarball
from tests.engines.crds.tarballs import GROUPS, build, members, release

CA = new_authority(now=datetime.now(UTC)).certificate_pem
TOKEN = "t0ken-of-the-instance"
KEY = ObjectKey("", KARMADA, "tenant", "demo")
CRDS = {f"{plural}.{group}" for group, plurals in GROUPS.items() for plural in plurals}


class Bench:
    """An applier, its cache with a release, and the API server of the instance."""

    def __init__(self, applier: Applier, api: ApiServer, cache: Cache, fetched: Fetched) -> None:
        self.applier = applier
        self.api = api
        self.cache = cache
        self.fetched = fetched

    async def apply(self) -> dict[str, str]:
        """Apply, and return the result for each CRD."""
        found = await self.applier.apply(KEY, {"metadata": {"name": "demo", "namespace": "tenant"}}, self.fetched)
        return {one.name: one.result for one in found}

    async def refuse(self, text: str) -> CRDsError:
        with pytest.raises(CRDsError, match=text) as raised:
            await self.apply()
        return raised.value


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    cache, verifier = Cache(tmp_path), Verifier(at_once=1)
    with serving_origin(tarball(release())) as origin:
        fetched = bring(cache, Source(origin.url))
    with serving() as (api, address):

        async def read_target(*_: Any, max_response_bytes: int) -> Target:
            access = RestConfig(address, ssl.create_default_context(), TOKEN, max_response_bytes)
            return Target(access, CA)

        monkeypatch.setattr(applier_module, "read_target", read_target)
        applier = Applier(None, cache, verifier)  # type: ignore[arg-type]  # only `read_target` uses the host
        yield Bench(applier, api, cache, fetched)
    verifier.close()


async def test_a_fixed_address_of_another_instance_is_reported(bench: Bench) -> None:
    body = members(properties=1)
    for name, text in body.items():
        if name.startswith("crds/patches/") and text is not None:
            body[name] = text.replace(b"{{name}}.{{namespace}}", b"karmada-webhook.karmada-system")
    with serving_origin(tarball(build(body))) as origin:
        bench.fetched = bring(bench.cache, Source(origin.url))
    found = await bench.applier.apply(KEY, {"metadata": {"name": "demo", "namespace": "tenant"}}, bench.fetched)
    warned = {one.name for one in found if one.warning}
    assert warned == {"clusterresourcebindings.work.karmada.io", "resourcebindings.work.karmada.io"}
    assert "the instance's webhook is demo-karmada-webhook.tenant.svc" in report_applied("a", found).finding.message


async def test_a_release_is_applied_with_its_patches_and_then_unchanged(bench: Bench) -> None:
    assert await bench.apply() == dict.fromkeys(CRDS, "created")
    assert set(bench.api.crds) == CRDS
    conversion = bench.api.crds["resourcebindings.work.karmada.io"]["spec"]["conversion"]
    assert "karmada-webhook" in str(conversion) or "demo" in str(conversion)
    assert await bench.apply() == dict.fromkeys(CRDS, "unchanged")


async def test_the_server_is_asked_whether_it_answers_before_a_slot_is_taken(bench: Bench) -> None:
    bench.api.disturb = lambda asked, _: "cut" if asked.name == "version" else None
    failure = await bench.refuse("Server disconnected")
    assert (failure.exit, failure.transient) == (Exit.NETWORK, True)
    assert {asked.name for asked in bench.api.asked} == {"version"}


async def test_a_server_that_refuses_its_version_answers(bench: Bench) -> None:
    def answer(asked: Asked, _: int) -> Any:
        return (403, {"reason": "Forbidden", "message": "no"}) if asked.name == "version" else None

    bench.api.disturb = answer
    assert set(await bench.apply()) == CRDS


async def test_a_server_of_another_kind_is_refused(bench: Bench) -> None:
    bench.api.disturb = lambda *_: (200, "<html>")
    assert (await bench.refuse("does not answer like an apiserver")).exit is Exit.HTTP


async def test_an_error_never_repeats_the_token(bench: Bench) -> None:
    def answer(asked: Asked, _: int) -> Any:
        return (403, {"message": f"bad token {TOKEN}"}) if asked.method == "PATCH" else None

    bench.api.disturb = answer
    failure = await bench.refuse("bad token <redacted>")
    assert TOKEN not in str(failure)


async def test_a_tarball_beyond_the_limits_of_a_first_try_is_read_with_the_full_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[bool] = []
    read = bench.applier._verifier.read

    async def read_whole(*arguments: Any, whole: bool, **rest: Any) -> Any:
        tries.append(whole)
        if not whole:
            raise CRDsError(Exit.LIMIT, "beyond the limits of a first try")
        return await read(*arguments, whole=whole, **rest)

    monkeypatch.setattr(bench.applier._verifier, "read", read_whole)
    assert set(await bench.apply()) == CRDS
    assert tries == [False, True]


@pytest.mark.parametrize("damage", ["gone", "changed"])
async def test_a_tarball_that_left_the_cache_is_not_applied(bench: Bench, damage: str) -> None:
    if damage == "gone":
        bench.cache.remove(bench.fetched.key)
    else:
        bench.fetched = bench.fetched._replace(sha256="0" * 64)
    failure = await bench.refuse(r"the tarball sha256:\w+ is no longer in the cache")
    assert (failure.exit, failure.transient) == (Exit.NOT_CACHED, True)
    assert not any(asked.method == "PATCH" for asked in bench.api.asked)


async def test_a_release_that_drops_a_stored_version_is_refused_before_any_write(bench: Bench) -> None:
    await bench.apply()
    bench.api.asked.clear()

    def answer(asked: Asked, _: int) -> Any:
        if asked.name != "works.work.karmada.io":
            return None
        return 200, {**bench.api.crds[asked.name], "status": {"storedVersions": ["v1alpha1", "v0"]}}

    bench.api.disturb = answer
    assert isinstance(await bench.refuse(r"works\.work\.karmada\.io: v0"), StoredVersionsError)
    assert not any(asked.method == "PATCH" for asked in bench.api.asked)


async def test_applying_has_a_limit_of_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier_module, "MAX_APPLY_SECONDS", 0.0)
    failure = await bench.refuse(": applying the CRDs took more than 0 s")
    assert (failure.exit, failure.transient) == (Exit.NETWORK, True)
