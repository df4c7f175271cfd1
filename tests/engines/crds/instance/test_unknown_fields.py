"""Unknown fields of ``spec.crdTarball``, at admission and in commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.instance.source_and_secrets import select_source
from fleethook.engines.crds.instance.source_validation import find_unknown_fields, validate_karmada
from tests.cli.commands import invoke
from tests.engines.crds.instance.test_source_validation import karmada, review_of

URL = "https://h/crds.tar.gz"


def found(tarball: Any) -> list[str]:
    return [f"{field}: {text}" for field, text in find_unknown_fields(tarball, "spec.crdTarball")]


@pytest.mark.parametrize(
    ("tarball", "text"),
    [
        ({"httpsource": {"url": URL}}, "httpsource: Forbidden: unknown field; did you mean httpSource?"),
        ({"httpSource": {"sha265": "a"}}, "httpSource.sha265: Forbidden: unknown field; did you mean sha256?"),
        (
            {"httpSource": {"proxy": {"proxyUrl": "p"}}},
            "httpSource.proxy.proxyUrl: Forbidden: unknown field; did you mean proxyURL?",
        ),
        (
            {"httpSource": {"proxy": {"secretRef": {"nmae": "p"}}}},
            "httpSource.proxy.secretRef.nmae: Forbidden: unknown field; did you mean name?",
        ),
        ({"sha256": "a"}, "sha256: Forbidden: unknown field: it belongs in spec.crdTarball.httpSource"),
        ({"httpSource": {"noProxy": []}}, "httpSource.noProxy: Forbidden: unknown field: it belongs in spec.crdTarball.httpSource.proxy"),
        ({"localSource": {"dir": 1}}, "localSource.dir: Forbidden: unknown field; known are path"),
        ({"httpSource": {"sha265": None}}, "httpSource.sha265: Forbidden: unknown field; did you mean sha256?"),
    ],
)  # fmt: skip
def test_an_unknown_member_is_named_with_the_one_that_is_meant(tarball: Any, text: str) -> None:
    assert found(tarball) == [f"spec.crdTarball.{text}"]


def test_admission_refuses_it_and_an_update_of_something_else_keeps_it() -> None:

    stored = karmada({"httpSource": {"url": URL, "sha265": "a"}})
    refused = validate_karmada(review_of(stored))
    assert not refused.allowed
    assert "spec.crdTarball.httpSource.sha265: Forbidden: unknown field; did you mean sha256?" in refused.message
    changed = {**stored, "spec": {**stored["spec"], "suspend": True}}
    assert validate_karmada(review_of(changed, old=stored)).allowed


def test_spec_outside_the_tarball_is_karmadas() -> None:
    assert select_source({"spec": {"crdTarbal": {}, "component": 1}}, version="v1.10.0").source.url.endswith(
        "crds.tar.gz"
    )


def test_a_command_refuses_it_before_any_request(tmp_path: Path) -> None:
    manifest = tmp_path / "karmada.yaml"
    document = karmada({"httpSource": {"url": "https://127.0.0.1:1/", "sha265": "a"}})
    manifest.write_text(json.dumps({"apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", **document}))
    result = invoke(["crds", "--data-dir", str(tmp_path / "d"), "fetch", "--karmada", str(manifest)])
    assert result.exit_code == 2
    assert "did you mean sha256?" in result.stderr
