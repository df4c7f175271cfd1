"""The controller for CRD tarballs with a real apiserver: results of each policy, failure and deletion."""

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Api
from tests.e2e.crds_controller import BODY, ControllerProcess, KarmadaFactory, http, run_crds_controller
from tests.engines.crds.origin import Origin, hangs_up, says, silent, tarball
from tests.engines.crds.tarballs import build, release
from tests.waiting import wait_for

SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(scope="module")
def process(account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerProcess]:
    with run_crds_controller(account, tmp_path_factory.mktemp("karmadas")) as running:
        yield running


def test_an_instance_gets_its_tarball_and_the_condition_says_so(
    process: ControllerProcess, make: KarmadaFactory, origin: Origin
) -> None:
    bytes_before = process.count("fleethook_crds_downloaded_bytes_total")
    instance = make(http(origin))
    wait_for(instance.ready, what="it is ready")
    assert instance.condition("Ready")[2] == "karmada init job is completed"
    status, reason, message = instance.condition("CRDsPrepared")
    assert (status, reason) == ("True", "Downloaded")
    assert SHA in message
    assert (process.entry(origin) / "crds" / "bases").is_dir()
    stored = instance.stored
    assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"]
    assert stored["metadata"]["finalizers"] == ["operator.karmada.io/finalizer"]
    assert stored["metadata"]["labels"] == {"operator.karmada.io/disable-cascading-deletion": "false"}
    wait_for(lambda: instance.events() == [("Normal", "CRDsDownloaded", 1)])
    assert process.count('fleethook_crds_fetches_total{result="downloaded"}') >= 1
    assert process.count("fleethook_crds_cache_entries") >= 1
    assert process.count("fleethook_crds_cache_bytes") > len(BODY)
    assert process.count("fleethook_crds_downloaded_bytes_total") == bytes_before + len(BODY)
    assert process.get("/readyz")[0] == 200


def test_a_transient_failure_is_retried_and_counted_in_one_event(
    process: ControllerProcess, make: KarmadaFactory, origin: Origin
) -> None:
    down = {"timeoutSeconds": 1}
    origin.answer = hangs_up
    instance = make(http(origin, **down))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "DownloadFailed"))
    assert instance.condition("Ready")[1] == "Failed"
    assert instance.condition("Ready")[2].startswith("failed to download CRD tar, err: ")
    wait_for(lambda: any(reason == "CRDsDownloadFailed" and count > 1 for _, reason, count in instance.events()))
    since = instance.conditions()["Ready"]["lastTransitionTime"]
    assert since == instance.conditions()["CRDsPrepared"]["lastTransitionTime"]
    origin.answer = tarball(BODY)
    wait_for(instance.ready, what="it is ready after the origin is back")


def test_a_permanent_failure_waits_for_another_spec(
    process: ControllerProcess, make: KarmadaFactory, admin: Api, origin: Origin
) -> None:
    origin.answer = says(b"gone", status="404 Not Found")
    instance = make(http(origin))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "DownloadFailed"))
    assert "404" in instance.condition("Ready")[2]
    asked = len(origin.asked)
    instance.admin.merge(instance.path, {"metadata": {"labels": {"touched": "yes"}}})
    other = make(http(origin, sha256="0" * 64), name="other")
    wait_for(lambda: other.has_condition("CRDsPrepared", "False", "DownloadFailed"))
    # The controller did not retry the first one meanwhile: neither time nor a label is a reason.
    assert len(origin.asked) == asked + 1
    origin.answer = tarball(BODY)
    other.change(crdTarball=http(origin, sha256="1" * 64))
    wait_for(lambda: other.has_condition("CRDsPrepared", "False", "IntegrityFailed"))
    other.change(crdTarball=http(origin, sha256=SHA))
    wait_for(other.ready)
    instance.change(crdTarball=http(origin, timeoutSeconds=100))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "True", "Cached"))


def test_invalid_archives_have_distinct_reasons(
    process: ControllerProcess, make: KarmadaFactory, origin: Origin
) -> None:
    origin.answer = tarball(BODY[:-1])
    instance = make(http(origin))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "IntegrityFailed"))
    assert instance.condition("Ready")[2].startswith("[unpack] inValid crd tar, err: ")
    origin.answer = tarball(build({"crds/": None, "crds/bases/": None, "crds/patches/": None}))
    instance.change(crdTarball=http(origin, timeoutSeconds=99))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "InvalidArchive"))
    origin.answer = tarball(release())
    instance.change(crdTarball=http(origin, maxBytes=1000))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "LimitExceeded"))
    instance.change(crdTarball={**http(origin, maxBytes=None), "crdDownloadPolicy": "Never"})
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "Offline"))
    assert {event[1] for event in instance.events()} >= {
        "CRDsIntegrityFailed", "CRDsInvalidArchive", "CRDsLimitExceeded", "CRDsOffline",
    }  # fmt: skip


def test_a_suspended_instance_is_left_alone_until_its_deletion(
    process: ControllerProcess, make: KarmadaFactory, admin: Api, origin: Origin
) -> None:
    instance = make(http(origin), suspend=True)
    other = make(http(origin), name="other")
    wait_for(other.ready)
    assert instance.conditions() == {}
    assert "finalizers" not in instance.stored["metadata"]
    instance.change(suspend=False)
    wait_for(instance.ready)
    instance.change(suspend=True)
    admin.delete(instance.path)
    admin.delete(other.path)
    wait_for(other.gone)
    assert not instance.gone()
    instance.change(suspend=False)
    wait_for(instance.gone)


def test_many_instances_of_one_tarball_ask_once(
    process: ControllerProcess, make: KarmadaFactory, origin: Origin
) -> None:
    origin.answer = silent
    instances = [make(http(origin), name=f"i-{number}") for number in range(12)]
    # All wait for the same answer, and their conditions say so.
    wait_for(lambda: sum(one.has_condition("CRDsPrepared", "False", "Downloading") for one in instances) == 12)
    assert instances[0].condition("Ready") == ("False", "Progressing", "karmada init job is in progressing")
    assert len(origin.asked) == 1
    origin.answer = tarball(BODY)
    origin.cut()
    wait_for(lambda: all(one.ready() for one in instances))
    # The request that was cut, and its retry.
    assert len(origin.asked) == 2


def test_secrets_are_used_and_never_shown(
    process: ControllerProcess, make: KarmadaFactory, namespace: str, admin: Api, origin: Origin, tmp_path: Path
) -> None:
    good = tarball(BODY)

    def guarded(asked: object, connection: object) -> None:
        wanted = "Basic " + base64.b64encode(b"admin:s3cr3t-w0rd").decode()
        allowed = asked.headers.get("authorization") == wanted  # type: ignore[attr-defined]
        (good if allowed else says(status="401 Unauthorized"))(asked, connection)  # type: ignore[arg-type]

    origin.answer = guarded
    instance = make(http(origin, secretRef={"name": "mirror"}))
    wait_for(lambda: instance.has_condition("CRDsPrepared", "False", "SourceInvalid"))
    assert "there is no Secret mirror" in instance.condition("CRDsPrepared")[2]
    data = {
        name: base64.b64encode(value).decode()
        for name, value in {"username": b"admin", "password": b"s3cr3t-w0rd"}.items()
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mirror", "namespace": namespace},
        "data": data,
    }
    admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    # The controller waits until a user creates it.
    wait_for(instance.ready)
    kept = (process.entry(origin) / ".meta.json").read_text()
    shown = [process.log.read_text(), process.get("/metrics")[1], str(instance.stored), str(instance.events()), kept]
    assert not any("s3cr3t" in text or data["password"] in text for text in shown)
