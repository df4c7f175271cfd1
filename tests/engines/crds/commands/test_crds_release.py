"""The release and the instance that `render`, `apply` and `diff` use, by `crds render`."""

import contextlib
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cli.inputs.kubeconfig import Target
from fleethook.cluster.certificates.certificate_authority import new_authority
from fleethook.engines.crds.apply.crd_apply import CRDChange
from fleethook.engines.crds.commands.crds_release import connect, format_changes
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import kubeconfig, serving
from tests.engines.crds.origin import Origin
from tests.engines.crds.tarballs import GROUPS, release


def test_changes_are_lines_and_their_absence_is_stated() -> None:
    assert format_changes([]) == ["no differences"]
    assert format_changes([CRDChange("a.example.org", "added"), CRDChange("b.example.org", "removed")]) == [
        "added    a.example.org", "removed  b.example.org",
    ]  # fmt: skip


async def test_a_connection_ends_with_its_stack(tmp_path: Path) -> None:
    with serving() as (api, address):
        async with contextlib.AsyncExitStack() as stack:
            connection = await connect(stack, Target(kubeconfig(tmp_path, address)))
            api.disturb = lambda *_: (200, {"gitVersion": "v1"})
            assert await connection.json("GET", "/version") == {"gitVersion": "v1"}


async def test_a_malformed_kubeconfig_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters: 5")
    with pytest.raises(CRDsError, match=f"credentials cannot be read from {path}: it is no kubeconfig") as raised:
        async with contextlib.AsyncExitStack() as stack:
            await connect(stack, Target(path))
    assert raised.value.exit is Exit.USAGE


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
    run("render", origin.url, "--offline", *instance, code=10)
    assert names(run("render", origin.url, *instance, "-o", "json")) == CRDS
    assert names(run("render", origin.url, "--offline", *instance, "-o", "json")) == CRDS
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
