"""``fleethook crds render`` and ``apply``: output and exit codes."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.certificates.certificate_authority import new_authority
from tests.cli.commands import Result, invoke
from tests.engines.crds.apply.apiserver import ApiServer, kubeconfig
from tests.engines.crds.apply.apiserver import serving as serving_api
from tests.engines.crds.origin import Origin, serving, tarball
from tests.engines.crds.tarballs import build, crd, dotted, members, small
from tests.waiting import with_patience

CRD = "works.work.karmada.io"
TARBALL = build(small())
PEM = new_authority(now=datetime.now(UTC)).certificate_pem


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(TARBALL)) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "ca.crt").write_bytes(PEM)
    (tmp_path / "crds.tar.gz").write_bytes(TARBALL)

    def run(*arguments: object, code: int = 0) -> Result:
        result = invoke(["crds", "--data-dir", str(tmp_path / "data"), *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def instance(tmp_path: Path) -> list[object]:
    return ["--name", "demo", "--namespace", "test", "--ca-file", tmp_path / "ca.crt"]


def manifest(tmp_path: Path, *documents: str) -> Path:
    path = tmp_path / "karmada.yaml"
    head = "apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\n"
    path.write_text("---\n".join(head + document for document in documents))
    return path


def url_of(found: Any) -> str:
    return str(found["spec"]["conversion"]["webhook"]["clientConfig"]["url"])


# --- render -----------------------------------------------------------------------------------------------------------


def test_an_address_is_fetched_and_its_crds_are_printed(
    run: Any, origin: Origin, instance: list[object], tmp_path: Path
) -> None:
    (found,) = yaml.safe_load_all(run("render", origin.url, *instance).stdout)
    assert found["metadata"]["name"] == CRD
    assert found["spec"]["conversion"]["webhook"]["clientConfig"] == {
        "url": "https://demo-karmada-webhook.test.svc:443/convert", "caBundle": base64.b64encode(PEM).decode(),
    }  # fmt: skip
    run("render", origin.url, "--offline", *instance)
    assert len(origin.asked) == 1
    assert len(list((tmp_path / "data" / "cache").glob("*/crds.tar.gz"))) == 1


def test_json_is_a_list_that_kubectl_takes(run: Any, instance: list[object], tmp_path: Path) -> None:
    found = json.loads(run("render", "--tarball", tmp_path / "crds.tar.gz", *instance, "-o", "json").stdout)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert [item["metadata"]["name"] for item in found["items"]] == [CRD]


def test_a_release_is_printed_in_order(run: Any, instance: list[object], tmp_path: Path) -> None:
    (tmp_path / "release.tar.gz").write_bytes(build(members(properties=2)))
    shown = run("render", "--tarball", tmp_path / "release.tar.gz", *instance).stdout
    found = list(yaml.safe_load_all(shown))
    assert len(found) == 19
    assert [one["metadata"]["name"] for one in found if "conversion" in one["spec"]] == [
        "clusterresourcebindings.work.karmada.io", "resourcebindings.work.karmada.io",
    ]  # fmt: skip
    assert not (tmp_path / "data").exists(), "the cache is left alone"


def test_names_with_dots_are_accepted_with_normalize_dot(
    run: Any, origin: Origin, instance: list[object], tmp_path: Path
) -> None:
    (tmp_path / "dotted.tar.gz").write_bytes(dotted())
    origin.answer = tarball(dotted())
    for source in (["--tarball", tmp_path / "dotted.tar.gz"], [origin.url]):
        run("render", *source, *instance, code=24)
        (found,) = yaml.safe_load_all(run("render", *source, *instance, "--normalize-dot").stdout)
        assert found["metadata"]["name"] == CRD


def test_name_and_namespace_default_to_those_of_the_instance(run: Any, origin: Origin, tmp_path: Path) -> None:
    source = f"spec: {{crdTarball: {{httpSource: {{url: '{origin.url}'}}}}}}\n"
    path = manifest(tmp_path, "metadata: {name: karmada-demo, namespace: own}\n" + source)
    (found,) = yaml.safe_load_all(run("render", "--karmada", path, "--ca-file", tmp_path / "ca.crt").stdout)
    assert url_of(found) == "https://karmada-demo-webhook.own.svc:443/convert"
    given = ["--name", "x", "--namespace", "y"]
    (found,) = yaml.safe_load_all(run("render", "--karmada", path, "--ca-file", tmp_path / "ca.crt", *given).stdout)
    assert url_of(found) == "https://x-karmada-webhook.y.svc:443/convert"


def test_an_instance_can_say_its_name_beside_a_tarball_that_is_here(run: Any, tmp_path: Path) -> None:
    path = manifest(tmp_path, "metadata: {name: karmada-demo, namespace: own}\n")
    given = ["--tarball", tmp_path / "crds.tar.gz", "--ca-file", tmp_path / "ca.crt"]
    (found,) = yaml.safe_load_all(run("render", "--karmada", path, *given).stdout)
    assert url_of(found) == "https://karmada-demo-webhook.own.svc:443/convert"


def test_the_policy_of_the_instance_holds(run: Any, origin: Origin, tmp_path: Path) -> None:
    source = f"spec: {{crdTarball: {{crdDownloadPolicy: Always, httpSource: {{url: '{origin.url}'}}}}}}\n"
    path = manifest(tmp_path, "metadata: {name: a, namespace: b}\n" + source)
    for _ in range(2):
        run("render", "--karmada", path, "--ca-file", tmp_path / "ca.crt")
    assert len(origin.asked) == 2


def test_a_file_that_is_not_applied_is_a_warning(run: Any, instance: list[object], tmp_path: Path) -> None:
    (tmp_path / "odd.tar.gz").write_bytes(build({**small(), "crds/bases/work/x.yml": b""}))
    shown = run("render", "--tarball", tmp_path / "odd.tar.gz", *instance)
    assert shown.stderr == "warning: crds/bases/work/x.yml is not applied: only files named *.yaml are\n"
    run("render", "--tarball", tmp_path / "odd.tar.gz", *instance, "--strict", code=24)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "give a URL, --karmada FILE or --version RELEASE"),
        (("{url}", "--tarball", "{dir}/crds.tar.gz"), 2, "give --tarball, or a URL or --version, not both"),
        (
            ("--version", "v1.0.0", "--tarball", "{dir}/crds.tar.gz"),
            2,
            "give --tarball, or a URL or --version, not both",
        ),
        (("--tarball", "{dir}/none.tar.gz"), 26, "No such file or directory"),
        (("--tarball", "{dir}/ca.crt"), 23, "gzip: invalid header"),
        (("--tarball", "{dir}/crds.tar.gz", "--sha256", "0" * 64), 23, "0" * 64),
        (("{url}", "--offline"), 10, "is not in the cache"),
        (("{url}", "--ca", "/nowhere.pem"), 2, "/nowhere.pem"),
        (("--tarball", "{dir}/crds.tar.gz", "--ca-file", "/nowhere.pem"), 2, "/nowhere.pem"),
        (("--tarball", "{dir}/crds.tar.gz", "--ca-file", "/dev/null"), 2, "unexpected empty ca cert data"),
        (("--tarball", "{dir}/crds.tar.gz", "--ca-file", "{dir}/crds.tar.gz"), 2, "are not PEM"),
        (("--tarball", "{dir}/crds.tar.gz", "--name", 'a"b'), 2, "which is not a DNS label"),
        (("--tarball", "{dir}/crds.tar.gz", "--namespace", "a/b"), 2, "which is not a DNS label"),
    ],
)
def test_each_failure_has_its_exit_code(
    run: Any, origin: Origin, instance: list[object], tmp_path: Path, arguments: Any, code: int, text: str
) -> None:
    given = [one.format(url=origin.url, dir=tmp_path) for one in arguments]
    for command in ("render", "apply"):
        shown = run(command, *instance, *given, code=code)
        assert text in shown.stderr
        assert shown.stdout == ""


@pytest.mark.parametrize(
    ("left_out", "what"), [(0, "name of the instance's webhook"), (2, "namespace"), (4, "certificates")]
)
def test_the_values_of_placeholders_are_required(
    run: Any, instance: list[object], tmp_path: Path, left_out: int, what: str
) -> None:
    del instance[left_out : left_out + 2]
    shown = run("render", "--tarball", tmp_path / "crds.tar.gz", *instance, code=2)
    assert shown.stderr.startswith(f"fleethook: crds/patches/webhook_in_works.yaml needs the {what}")


def test_without_patches_nothing_has_to_be_given(run: Any, tmp_path: Path) -> None:
    files = {name: body for name, body in small().items() if not name.endswith("in_works.yaml")}
    (tmp_path / "plain.tar.gz").write_bytes(build(files))
    (found,) = yaml.safe_load_all(run("render", "--tarball", tmp_path / "plain.tar.gz").stdout)
    assert found == yaml.safe_load(crd("works", "work.karmada.io"))


def test_several_instances_are_too_many(run: Any, origin: Origin, tmp_path: Path) -> None:
    path = manifest(tmp_path, "metadata: {name: a}\n", "metadata: {name: b}\n")
    shown = run("render", "--karmada", path, code=2)
    assert shown.stderr == f"fleethook: {path} must have one Karmada, and has 2\n"
    path.write_text("")
    assert "must have one Karmada, and has 0" in run("render", "--karmada", path, code=2).stderr
    path = manifest(tmp_path, "metadata: {name: a}\n")
    assert "give a URL or --karmada, not both" in run("render", origin.url, "--karmada", path, code=2).stderr


def test_secrets_and_cluster_sources_are_refused_outside_of_the_cluster(run: Any, tmp_path: Path) -> None:
    path = manifest(tmp_path, "metadata: {name: a}\nspec: {crdTarball: {localSource: {path: /srv/crds.tar.gz}}}\n")
    assert "use `crds cache import`" in run("render", "--karmada", path, code=2).stderr


# --- apply ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[tuple[ApiServer, str]]:
    with serving_api() as running:
        yield running


@pytest.fixture
def here(instance: list[object], tmp_path: Path) -> list[object]:
    return ["--tarball", tmp_path / "crds.tar.gz", *instance]


def test_the_result_of_each_crd_is_printed(
    run: Any, server: tuple[ApiServer, str], here: list[object], tmp_path: Path
) -> None:
    config = kubeconfig(tmp_path, server[1])
    assert run("apply", *here, "--kubeconfig", config).stdout == f"created    {CRD}  patched\n"
    shown = run("apply", *here, "--kubeconfig", config, "--output", "json").stdout
    assert json.loads(shown) == [{"name": CRD, "result": "unchanged", "patched": True, "warning": ""}]
    assert url_of(server[0].crds[CRD]) == "https://demo-karmada-webhook.test.svc:443/convert"


def test_the_usual_places_of_a_kubeconfig_are_looked_at(
    run: Any, server: tuple[ApiServer, str], here: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(tmp_path / "home" / ".kube" / "config") in run("apply", *here, code=2).stderr
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    kubeconfig(tmp_path, server[1]).rename(tmp_path / "home" / ".kube" / "config")
    run("apply", *here)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other"))
    assert str(tmp_path / "other") in run("apply", *here, code=2).stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "text", "{clusters: 3}", "\x00"])
def test_an_invalid_kubeconfig_is_reported(run: Any, here: list[object], tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    shown = run("apply", *here, "--kubeconfig", tmp_path / "kubeconfig", code=2)
    assert shown.stderr.startswith(f"fleethook: credentials cannot be read from {tmp_path / 'kubeconfig'}: ")
    assert len(shown.stderr.splitlines()) == 1


def test_crds_that_are_not_established_are_reported_after_the_results(
    run: Any, server: tuple[ApiServer, str], here: list[object], tmp_path: Path
) -> None:
    server[0].conditions = []
    config = kubeconfig(tmp_path, server[1])
    words = f"{CRD}: no conditions yet\n"

    def apply(seconds: float) -> Result:
        server[0].crds.clear()
        return run("apply", *here, "--kubeconfig", config, "--wait-seconds", str(seconds), code=20)

    shown = with_patience(apply, lambda shown: words in shown.stderr)
    assert shown.stdout == f"created    {CRD}  patched\n"
    changes, _, told = shown.stderr.rpartition("fleethook: ")
    assert changes == f"added    {CRD}\n  version v1alpha1 added\n"
    limit, _, rest = told.partition(" s: ")
    assert limit.startswith("not Established within ")
    assert rest == words
    asked = len(server[0].asked)
    run("apply", *here, "--kubeconfig", config, "--wait-seconds", "0")
    # The present state, the difference, and then the result.
    assert [one.method for one in server[0].asked[asked:]] == ["GET", "GET", "PATCH", "PATCH"]
    run("apply", *here, "--kubeconfig", config, "--dry-run")


@pytest.mark.parametrize(("disturbance", "code"), [("cut", 20), ((403, {"reason": "Forbidden", "message": "no"}), 21)])
def test_a_server_that_is_away_and_one_that_refuses_have_codes_of_their_own(
    run: Any, server: tuple[ApiServer, str], here: list[object], tmp_path: Path, disturbance: Any, code: int
) -> None:
    server[0].disturb = lambda _asked, _times: disturbance
    shown = run("apply", *here, "--kubeconfig", kubeconfig(tmp_path, server[1]), code=code)
    assert shown.stderr.startswith("fleethook: customresourcedefinitions: ")
    assert shown.stdout == ""
