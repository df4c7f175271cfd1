"""``fleethook crds diff`` between two releases."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.archive import archive
from tests.cli.commands import Result, invoke
from tests.engines.crds.tarballs import build, crd, patch, small


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "old.tar.gz").write_bytes(build(small()))
    new = {**small(), "crds/bases/work/works2.yaml": crd("others", "work.karmada.io")}
    new["crds/bases/work/work.karmada.io_works.yaml"] = crd("works", "work.karmada.io", properties=2)
    (tmp_path / "new.tar.gz").write_bytes(build(new))

    def run(*arguments: object, code: int = 0) -> Result:
        result = invoke(["crds", "diff", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result

    return run


def test_releases_are_compared_by_crd_and_version(run: Any, tmp_path: Path) -> None:
    new, old = tmp_path / "new.tar.gz", tmp_path / "old.tar.gz"
    assert run("--tarball", new, "--against", old, code=1).stdout.splitlines() == [
        "added    others.work.karmada.io",
        "  version v1alpha1 added",
        "changed  works.work.karmada.io",
        "  version v1alpha1 changed: schema",
    ]
    found = json.loads(run("--tarball", old, "--against", new, "--output", "json", code=1).stdout)
    assert [(one["name"], one["change"]) for one in found] == [
        ("others.work.karmada.io", "removed"),
        ("works.work.karmada.io", "changed"),
    ]


def test_nothing_differs_from_the_same_release_in_a_directory(run: Any, tmp_path: Path) -> None:
    directory = tmp_path / "tree"
    directory.mkdir()
    archive.unpack(tmp_path / "old.tar.gz", directory)
    shown = run("--tarball", tmp_path / "old.tar.gz", "--against", directory)
    assert shown.stdout == "no differences\n"


def test_a_patch_that_changed_is_a_difference(run: Any, tmp_path: Path) -> None:
    other = patch("works").replace(b"/convert", b"/other")
    (tmp_path / "new.tar.gz").write_bytes(build({**small(), "crds/patches/webhook_in_works.yaml": other}))
    shown = run("--tarball", tmp_path / "new.tar.gz", "--against", tmp_path / "old.tar.gz", code=1)
    assert "  spec changed: conversion" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--name", "demo", "--namespace", "test"), "{{caBundle}}: give --ca-file"),
        (
            ("--against", "{dir}/old.tar.gz", "--context", "k"),
            "give --against or the cluster of the instance, not both",
        ),
    ],
)
def test_a_missing_tarball_or_directory_is_named(
    run: Any, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    given = [one.format(dir=tmp_path) for one in arguments]
    assert text in run("--tarball", tmp_path / "new.tar.gz", *given, code=2).stderr


def test_without_a_kubeconfig_the_message_says_how_to_give_one(run: Any, tmp_path: Path) -> None:
    plain = {name: body for name, body in small().items() if not name.endswith("webhook_in_works.yaml")}
    (tmp_path / "new.tar.gz").write_bytes(build(plain))
    assert "there is no kubeconfig" in run("--tarball", tmp_path / "new.tar.gz", code=2).stderr
