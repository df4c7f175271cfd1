"""``fleethook crds render``: output, the choice of the tarball, and exit codes."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.certificates.certificate_authority import new_authority
from tests.engines.crds.origin import Origin
from tests.engines.crds.tarballs import GROUPS, release

RELEASE = release()
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
