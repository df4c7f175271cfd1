"""The controller for CRD tarballs with a real apiserver: restarts, shutdowns, and flags."""

import hashlib
import signal
from pathlib import Path

from tests.e2e.cluster import Api
from tests.e2e.crds_controller import BODY, KarmadaFactory, http, run_crds_controller
from tests.engines.crds.origin import Origin, hangs_up, head, serving, silent, tarball
from tests.waiting import wait_for

SHA = hashlib.sha256(BODY).hexdigest()


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


def test_tarballs_of_a_directory(account: Path, make: KarmadaFactory, tmp_path: Path) -> None:
    allowed = tmp_path / "tarballs"
    allowed.mkdir()
    (allowed / "crds.tar.gz").write_bytes(BODY)
    (tmp_path / "private").write_bytes(BODY)
    with run_crds_controller(account, tmp_path, "--local-root", str(allowed)):
        local = make({"localSource": {"path": str(allowed / "crds.tar.gz")}}, name="local")
        outside = make({"localSource": {"path": str(tmp_path / "private")}}, name="outside")
        wait_for(local.ready)
        assert SHA in local.condition("CRDsPrepared")[2]
        wait_for(lambda: outside.has_condition("CRDsPrepared", "False", "SourceInvalid"))
        assert "is not below the directory of local tarballs" in outside.condition("CRDsPrepared")[2]


def test_beside_the_operator_only_our_condition_is_written(
    account: Path, make: KarmadaFactory, admin: Api, origin: Origin, tmp_path: Path
) -> None:
    with run_crds_controller(account, tmp_path, "--beside-operator"):
        instance = make(http(origin))
        wait_for(lambda: instance.has_condition("CRDsPrepared", "True", "Downloaded"))
        assert set(instance.conditions()) == {"CRDsPrepared"}
        metadata = instance.stored["metadata"]
        assert "finalizers" not in metadata
        assert "labels" not in metadata
        # The operator writes a list of its own conditions only.
        theirs = {
            "type": "Ready", "status": "True", "reason": "Completed", "message": "theirs",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        for _ in range(3):
            admin.merge(f"{instance.path}/status", {"status": {"conditions": [theirs]}})
            wait_for(
                lambda: instance.has_condition("CRDsPrepared", "True", "Downloaded"),
                what="our condition is written again",
            )
            assert instance.conditions()["Ready"] == theirs
        assert len(origin.asked) == 1
        admin.delete(instance.path)
        wait_for(instance.gone)


def test_of_two_processes_one_works_and_the_other_takes_over(
    account: Path, make: KarmadaFactory, origin: Origin, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with run_crds_controller(account, first) as one:
        wait_for(lambda: "fleethook_leader 1.0" in one.get("/metrics")[1])
        with run_crds_controller(account, second) as other:
            instance = make(http(origin))
            wait_for(instance.ready)
            assert "fleethook_leader 0.0" in other.get("/metrics")[1]
            assert other.get("/readyz")[0] == 200
            assert not (second / "data").exists()
            one.process.kill()
            later = make(http(origin), name="later")
            wait_for(later.ready, what="the other one took over")
            assert "fleethook_leader 1.0" in other.get("/metrics")[1]


def test_a_download_under_way_is_ended_with_the_process(
    account: Path, make: KarmadaFactory, origin: Origin, tmp_path: Path
) -> None:
    origin.answer = lambda asked, connection: (
        connection.send(head(content_length=10) + b"\x1f\x8b"),
        silent(asked, connection),
    )[0]
    with run_crds_controller(account, tmp_path) as process:
        make(http(origin))
        wait_for(lambda: origin.asked)
        assert process.stop() == 0
        assert not process.entry(origin).exists()
