"""The controller for CRD tarballs with a real apiserver: restarts, shutdowns, and flags."""

import signal
from pathlib import Path

from tests.e2e.cluster import Api
from tests.e2e.crds_controller import BODY, SYSTEM, KarmadaFactory, http, run_crds_controller
from tests.e2e.fleet import expire_lease
from tests.engines.crds.origin import Origin, hangs_up, serving, tarball
from tests.waiting import wait_for


def test_a_restart_while_the_origin_is_unreachable_changes_nothing_but_the_reason(
    account: Path, make: KarmadaFactory, tmp_path: Path
) -> None:
    with serving(tarball(BODY)) as origin, run_crds_controller(account, tmp_path) as process:
        instance = make(http(origin))
        wait_for(instance.ready)
        before = instance.conditions()["Ready"]
        assert process.stop(signal.SIGKILL) == -signal.SIGKILL
    with run_crds_controller(account, tmp_path) as process:
        wait_for(lambda: instance.has_condition("CRDsPrepared", "True", "Cached"), what="the cache was checked")
        # The condition was true all the time, not only again.
        assert instance.conditions()["Ready"] == before
        wait_for(lambda: ("Normal", "CRDsCacheHit", 1) in instance.events())
        assert process.stop() == 0
    prepared = instance.conditions()["CRDsPrepared"]
    with run_crds_controller(account, tmp_path) as process:
        wait_for(lambda: 'fetches_total{result="cached"} 1.0' in process.get("/metrics")[1])
        assert process.stop() == 0
    assert instance.conditions()["CRDsPrepared"] == prepared
    # The second hit of an unchanged entry causes no event.
    assert sorted(instance.events()) == [("Normal", "CRDsCacheHit", 1), ("Normal", "CRDsDownloaded", 1)]


def test_always_asks_at_each_start_and_stays_ready_meanwhile(
    account: Path, make: KarmadaFactory, tmp_path: Path
) -> None:
    with serving(tarball(BODY)) as origin:
        with run_crds_controller(account, tmp_path) as process:
            instance = make({**http(origin), "crdDownloadPolicy": "Always"})
            wait_for(instance.ready)
            before = instance.conditions()["Ready"]
            assert process.stop() == 0
        with run_crds_controller(account, tmp_path) as process:
            wait_for(lambda: instance.has_condition("CRDsPrepared", "True", "Revalidated"))
            assert instance.conditions()["Ready"] == before
        assert [asked.headers.get("if-none-match") for asked in origin.asked] == [None, '"v1"']
        origin.answer = hangs_up
        instance.change(crdTarball={**http(origin, timeoutSeconds=1), "crdDownloadPolicy": "Always"})
        with run_crds_controller(account, tmp_path) as process:
            wait_for(lambda: instance.has_condition("Ready", "False", "Failed"), what="the default is to fail")
        with run_crds_controller(account, tmp_path, "--stale-if-error") as process:
            wait_for(lambda: instance.has_condition("CRDsPrepared", "True", "Stale"))
            assert instance.ready()
            wait_for(lambda: any(event[:2] == ("Warning", "CRDsStale") for event in instance.events()))


def test_of_two_processes_one_works_and_the_other_takes_over(
    account: Path, admin: Api, make: KarmadaFactory, origin: Origin, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with run_crds_controller(account, first, "--lease-duration", "15") as one:
        wait_for(lambda: "fleethook_leader 1.0" in one.get("/metrics")[1])
        with run_crds_controller(account, second, "--lease-duration", "15") as other:
            instance = make(http(origin))
            wait_for(instance.ready)
            assert "fleethook_leader 0.0" in other.get("/metrics")[1]
            assert other.get("/readyz")[0] == 200
            assert not (second / "data").exists()
            one.process.kill()
            expire_lease(admin, SYSTEM, "karmada-operator")
            later = make(http(origin), name="later")
            wait_for(later.ready, what="the other one took over")
            assert "fleethook_leader 1.0" in other.get("/metrics")[1]
