"""``fleethook crds``: output and exit codes."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.certificates.authority_and_serving_certificate import new_authority
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.instance.source_validation import find_problems
from tests.engines.crds.origin import Origin, endless, serving, tarball
from tests.engines.crds.tarballs import GROUPS, build, release, small

RELEASE = release()


def test_a_tarball_is_fetched_once_and_unpacked(run: Any, origin: Origin, tmp_path: Path) -> None:
    first = json.loads(run("fetch", origin.url, "--output", "json").stdout)
    assert (first["result"], first["bytes"], first["attempts"]) == ("downloaded", len(RELEASE), 1)
    assert first["key"] == TarballSource(origin.url).key
    path = tmp_path / "data" / "cache" / first["key"]
    assert (first["path"], (path / "crds.tar.gz").read_bytes()) == (str(path), RELEASE)
    assert (path / "crds" / "bases").is_dir()
    second = json.loads(run("fetch", origin.url, "--output", "json").stdout)
    assert (second["result"], second["attempts"], second["sha256"]) == ("cached", 0, first["sha256"])
    assert len(origin.asked) == 1


def test_a_local_tarball_becomes_the_entry_of_a_url(run: Any, origin: Origin, tmp_path: Path) -> None:
    file = tmp_path / "carried.tar.gz"
    file.write_bytes(RELEASE)
    assert "give a URL, --karmada FILE or --version RELEASE" in run("fetch", file, code=2).stderr
    assert "--url is for a local tarball" in run("fetch", origin.url, "--url", origin.url, code=2).stderr
    assert "No such file" in run("fetch", tmp_path / "none", "--url", origin.url, code=2).stderr
    run("fetch", file, "--url", origin.url, "--sha256", "0" * 64, code=23)
    assert run("cache", "ls").stdout == "the cache is empty\n"
    found = json.loads(run("fetch", file, "--url", origin.url, "--output", "json").stdout)
    assert (found["result"], found["url"], found["attempts"]) == ("imported", origin.url, 0)
    assert run("fetch", origin.url, "--policy", "Never").stdout.startswith("cached")
    assert origin.asked == []


def test_a_local_tarball_becomes_the_entry_of_each_instance(run: Any, tmp_path: Path) -> None:
    file, manifest = tmp_path / "crds.tar.gz", tmp_path / "karmada.yaml"
    file.write_bytes(RELEASE)
    manifest.write_text(
        "apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\nmetadata: {name: demo, namespace: test}\n"
        "spec: {crdTarball: {version: v1.18.0}}\n"
    )
    run("fetch", file, "--karmada", manifest)
    assert run("fetch", "--version", "v1.18.0", "--policy", "Never").stdout.startswith("cached")


def test_always_asks_whether_it_has_changed(run: Any, origin: Origin) -> None:
    run("fetch", origin.url)
    found = json.loads(run("fetch", origin.url, "--policy", "Always", "-o", "json").stdout)
    assert found["result"] == "revalidated"
    assert len(origin.asked) == 2


def test_the_source_of_a_manifest_is_fetched(run: Any, origin: Origin, tmp_path: Path) -> None:
    manifest = tmp_path / "karmada.yaml"
    manifest.write_text(
        "apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\nmetadata: {name: demo, namespace: test}\n"
        f"spec: {{crdTarball: {{crdDownloadPolicy: Always, httpSource: {{url: '{origin.url}'}}}}}}\n"
    )
    assert "downloaded" in run("fetch", "--karmada", manifest).stdout
    assert "revalidated" in run("fetch", "--karmada", manifest).stdout


@pytest.mark.parametrize(
    ("tarball_of", "text"),
    [
        ("{localSource: {path: /srv/crds.tar.gz}}", "give the file to `crds fetch`"),
        (
            "{httpSource: {url: 'http://h/c', secretRef: {name: mirror}}}",
            "the tarball needs the Secret mirror, which",
        ),
    ],
)
def test_secrets_and_cluster_sources_are_refused_outside_of_the_cluster(
    run: Any, tmp_path: Path, tarball_of: str, text: str
) -> None:
    manifest = tmp_path / "karmada.yaml"
    manifest.write_text(
        "apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\nmetadata: {name: demo, namespace: test}\n"
        f"spec: {{crdTarball: {tarball_of}}}\n"
    )
    assert text in run("fetch", "--karmada", manifest, code=2).stderr


def test_an_untrusted_certificate_has_the_exit_code_of_tls(run: Any, tmp_path: Path) -> None:
    with serving(tarball(RELEASE), directory=tmp_path) as origin:
        run("fetch", origin.url, code=22)
        (tmp_path / "ca.pem").write_bytes(origin.ca_pem)
        run("fetch", origin.url, "--ca", tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "give a URL, --karmada FILE or --version RELEASE"),
        (("{url}", "--karmada", "x.yaml"), 2, "give a URL or --karmada, not both"),
        (("{url}", "--policy", "Never"), 10, "is not in the cache"),
        (("{url}", "--sha256", "0" * 64), 23, "0" * 64),
        (("{url}", "--ca", "/nowhere.pem"), 2, "/nowhere.pem"),
    ],
)
def test_each_failure_has_its_exit_code(run: Any, origin: Origin, arguments: Any, code: int, text: str) -> None:
    shown = run("fetch", *(one.format(url=origin.url) for one in arguments), code=code)
    assert text in shown.stderr


def test_a_tarball_without_end_is_too_large(run: Any) -> None:
    with serving(endless) as origin:
        run("fetch", origin.url, code=25)


def test_a_file_is_verified_without_being_kept(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(RELEASE)
    shown = json.loads(run("verify", file, "-o", "json").stdout)
    assert shown["bytes"] == len(RELEASE)
    assert any(name.startswith("crds/bases/") for name in shown["files"])
    file.write_bytes(RELEASE[:-9])
    run("verify", file, code=23)
    assert run("verify", file, "--sha256", shown["sha256"], code=23).stderr.startswith("fleethook: ")


def test_a_pin_is_the_digest_and_leaves_nothing(run: Any, origin: Origin) -> None:
    digest = json.loads(run("pin", origin.url, "-o", "json").stdout)["sha256"]
    assert run("cache", "ls").stdout == "the cache is empty\n"
    found = json.loads(run("fetch", origin.url, "--sha256", digest, "-o", "json").stdout)
    assert found["sha256"] == digest


def test_no_secret_of_an_address_is_printed(run: Any, origin: Origin) -> None:
    secret = origin.url.replace("://", "://user:hunter2@") + "?token=hunter3"
    for arguments in (("fetch", secret), ("cache", "ls"), ("cache", "ls", "-o", "json")):
        shown = run(*arguments)
        assert "hunter" not in shown.stdout + shown.stderr


def test_commands_and_manifests_accept_the_output_of_pin(run: Any, tmp_path: Path) -> None:
    with serving(tarball(build(small()))) as origin:
        (digest,) = run("pin", origin.url).stdout.splitlines()
        assert run("fetch", origin.url, "--sha256", digest).stdout.startswith("downloaded")
        file = tmp_path / "crds.tar.gz"
        file.write_bytes(build(small()))
        run("verify", file, "--sha256", digest.upper())
        source = {"url": origin.url, "sha256": digest}
        assert not list(find_problems({"spec": {"crdTarball": {"httpSource": source}}}))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--sha256", "abc"), "--sha256 abc: must be 64 hexadecimal digits"),
        (("--sha256", f"sha256:{'a' * 64}"), "leave out the prefix sha256:"),
        (("--version", "1.18.0"), "did you mean v1.18.0?"),
        (("--version", "v1.18"), "must be a release such as v1.18.0"),
    ],
)
def test_digests_and_releases_are_checked_before_any_request(run: Any, options: tuple[str, str], text: str) -> None:
    with serving(tarball(build(small()))) as origin:
        address = (origin.url,) if options[0] == "--sha256" else ()
        for command in ("fetch", "render"):
            assert text in run(command, *address, *options, code=2).stderr
        assert origin.asked == []


def test_verify_reports_whether_the_operator_can_use_the_tarball(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(build(small()))
    assert "Karmada's operator can use it" in run("verify", file, "--strict").stdout
    file.write_bytes(build({name: body for name, body in small().items() if name != "crds/bases/work/"}))
    assert "Karmada's operator cannot use it:" in run("verify", file).stdout
    found = json.loads(run("verify", file, "--output", "json").stdout)
    assert (found["operator"]["usable"], len(found["operator"]["problems"])) == (False, 1)
    assert "own operator cannot use" in run("verify", file, "--strict", code=24).stderr


def test_verify_refuses_a_tarball_that_cannot_be_rendered(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(build({**small(), "crds/patches/webhook_in_works.yaml": b"a: '{{other}}'"}))
    assert "has the placeholder {{other}}" in run("verify", file, code=24).stderr


def test_entries_are_listed_and_removed(run: Any, origin: Origin, tmp_path: Path) -> None:
    path = Path(json.loads(run("fetch", origin.url, "-o", "json").stdout)["path"])
    key = TarballSource(origin.url).key
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert (row["key"], row["state"], row["url"]) == (key, "ready", origin.url)
    (path / "crds.tar.gz").write_bytes(b"spoiled")
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert row["state"] == "changed"
    (path / ".meta.json").unlink()
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert (row["state"], row["url"], row["sha256"]) == ("bare", "", "")
    run("cache", "rm", origin.url)
    run("cache", "rm", key, code=10)


def test_old_and_large_entries_are_pruned(run: Any, origin: Origin) -> None:
    run("fetch", origin.url)
    key = TarballSource(origin.url).key
    run("cache", "prune", code=2)
    run("cache", "prune", "--older-than", "soon", code=2)
    assert run("cache", "prune", "--older-than", "1d").stdout == "nothing to remove\n"
    assert key in run("cache", "prune", "--max-size", "1KiB", "--dry-run").stdout
    assert run("cache", "prune", "--max-size", "1KiB", "--keep", "1").stdout == "nothing to remove\n"
    assert key in run("cache", "prune", "--max-size", "1KiB").stdout
    assert run("cache", "ls").stdout == "the cache is empty\n"


CRDS = {f"{plural}.{group}" for group, plurals in GROUPS.items() for plural in plurals}
INSTANCE = ("--name", "demo", "--namespace", "karmada-system")


@pytest.fixture
def instance(tmp_path: Path) -> tuple[str, ...]:
    """The options about an instance."""
    path = tmp_path / "ca.crt"
    path.write_bytes(new_authority(now=datetime.now(UTC)).certificate_pem)
    return (*INSTANCE, "--ca-file", str(path))


def write_karmada(directory: Path, *sources: dict[str, Any]) -> Path:
    """Write a manifest with an instance for each source."""
    path = directory / "karmada.yaml"
    metadata = {"name": "demo", "namespace": "karmada-system"}
    documents = [
        {
            "apiVersion": "operator.karmada.io/v1alpha1",
            "kind": "Karmada",
            "metadata": metadata,
            "spec": {"crdTarball": source},
        }
        for source in sources
    ]
    path.write_text(yaml.safe_dump_all(documents))
    return path


def names(result: Any) -> set[str]:
    return {one["metadata"]["name"] for one in json.loads(result.stdout)["items"]}


def test_a_local_tarball_needs_no_cache(run: Any, instance: Any, tmp_path: Path) -> None:
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(RELEASE)
    assert names(run("render", "--tarball", file, *instance, "-o", "json")) == CRDS
    assert run("cache", "ls").stdout == "the cache is empty\n"
    digest = hashlib.sha256(RELEASE).hexdigest()
    run("render", "--tarball", file, "--sha256", digest, *instance)
    assert (
        f"{digest}, and {'0' * 64} is expected"
        in run("render", "--tarball", file, "--sha256", "0" * 64, *instance, code=23).stderr
    )


def test_a_url_is_fetched_into_the_cache_and_used_offline(run: Any, instance: Any, origin: Origin) -> None:
    run("render", origin.url, "--policy", "Never", *instance, code=10)
    assert names(run("render", origin.url, *instance, "-o", "json")) == CRDS
    assert names(run("render", origin.url, "--policy", "Never", *instance, "-o", "json")) == CRDS
    assert len(origin.asked) == 1


def test_the_instance_of_a_manifest_names_source_policy_and_placeholders(
    run: Any, instance: Any, origin: Origin, tmp_path: Path
) -> None:
    manifest = write_karmada(tmp_path, {"httpSource": {"url": origin.url}, "crdDownloadPolicy": "Always"})
    for _ in range(2):
        assert names(run("render", "--karmada", manifest, *instance[4:], "-o", "json")) == CRDS
    assert len(origin.asked) == 2  # Always
    run("render", "--karmada", manifest, "--policy", "IfNotPresent", *instance[4:])
    assert len(origin.asked) == 2
    shown = run("render", "--karmada", manifest, "--name", "other", *instance[4:]).stdout
    assert "other" in shown


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("{url}", "--tarball", "{file}"), "give --tarball, or a URL or --version, not both"),
        (("--tarball", "{file}", "--version", "v1.18.0"), "give --tarball, or a URL or --version, not both"),
        (("{url}", "--karmada", "{manifest}"), "give a URL or --karmada, not both"),
        (("--karmada", "{two}"), "must have one Karmada, and has 2"),
        (("{url}", "--sha256", "abc"), "--sha256 abc: must be 64 hexadecimal digits"),
    ],
)
def test_contradictions_are_usage_errors_before_any_request(
    run: Any, instance: Any, origin: Origin, tmp_path: Path, options: tuple[str, ...], text: str
) -> None:
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(RELEASE)
    source = {"httpSource": {"url": origin.url}}
    (tmp_path / "two").mkdir()
    places = {
        "url": origin.url, "file": file, "manifest": write_karmada(tmp_path, source),
        "two": write_karmada(tmp_path / "two", source, source),
    }  # fmt: skip
    given = [one.format(**places) for one in options]
    assert text in run("render", *given, *instance, code=2).stderr
    assert origin.asked == []
