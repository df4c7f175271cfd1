"""The types and the definition of Karmada instances; neither the server nor the chart installs the definition."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fleethook.model.crd_tarball import CRDTarball, HTTPSource, ProxyConfig
from schemas.definitions import FOREIGN_RESOURCES, RESOURCES, custom_resource_definition

ROOT = Path(__file__).parent.parent.parent
FILE = "karmadas.operator.karmada.io.yaml"
UPSTREAMS = {
    "crdDownloadPolicy": "Always",
    "httpSource": {"url": "https://h/crds.tar.gz", "proxy": {"proxyURL": "http://proxy.example.com:8080"}},
}


def tarball_schema() -> Any:
    (version,) = custom_resource_definition(FOREIGN_RESOURCES[0])["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["crdTarball"]


def test_upstream_fields_are_decoded() -> None:
    proxy = ProxyConfig(proxy_url="http://proxy.example.com:8080")
    source = HTTPSource(url="https://h/crds.tar.gz", proxy=proxy)
    assert msgspec.convert({**UPSTREAMS, "other": True}, CRDTarball) == CRDTarball(
        crd_download_policy="Always", http_source=source
    )


def test_decoded_fields_are_encoded_with_the_same_names() -> None:
    extended: dict[str, Any] = {
        **UPSTREAMS["httpSource"],
        "sha256": "a" * 64, "mirrors": ["https://m/"], "caBundle": "YQ==", "caSecretRef": {"name": "a"},
        "secretRef": {"name": "b"}, "timeoutSeconds": 5, "maxBytes": 6,
    }  # fmt: skip
    document = {
        "crdDownloadPolicy": "Never", "httpSource": extended, "localSource": {"path": "/a"},
        "version": "v1.10.0",
    }  # fmt: skip
    assert msgspec.to_builtins(msgspec.convert(document, CRDTarball)) == document


def test_the_policy_has_the_upstream_default_and_never() -> None:
    policy = tarball_schema()["properties"]["crdDownloadPolicy"]
    assert policy["default"] == "IfNotPresent"
    assert policy["enum"] == ["Always", "IfNotPresent", "Never"]


def test_the_schema_preserves_upstream_fields() -> None:
    (version,) = custom_resource_definition(FOREIGN_RESOURCES[0])["spec"]["versions"]
    instance = version["schema"]["openAPIV3Schema"]["properties"]
    tarball = tarball_schema()
    source = tarball["properties"]["httpSource"]
    for node in (instance["spec"], instance["status"], tarball, source, source["properties"]["proxy"]):
        assert node["x-kubernetes-preserve-unknown-fields"] is True
    assert "components" not in instance["spec"]["properties"]
    # Upstream requires a URL; here, the default applies without it.
    assert "required" not in source


def test_names_columns_and_category_equal_upstream() -> None:
    definition = custom_resource_definition(FOREIGN_RESOURCES[0])
    (version,) = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == "karmadas.operator.karmada.io"
    assert definition["spec"]["scope"] == "Namespaced"
    assert definition["spec"]["names"]["categories"] == ["karmada-io"]
    assert [(column["name"], column["jsonPath"]) for column in version["additionalPrinterColumns"]] == [
        ("READY", '.status.conditions[?(@.type=="Ready")].status'),
        ("AGE", ".metadata.creationTimestamp"),
    ]
    assert version["subresources"] == {"status": {}}


def test_the_definition_is_neither_in_the_chart_nor_registered() -> None:
    assert yaml.safe_load((ROOT / "schemas" / "crds" / FILE).read_text()) == custom_resource_definition(
        FOREIGN_RESOURCES[0]
    )
    assert not list((ROOT / "charts").rglob(FILE))
    assert not {resource.type for resource in RESOURCES} & {resource.type for resource in FOREIGN_RESOURCES}


@pytest.mark.parametrize(
    "broken",
    [
        {"crdDownloadPolicy": "Sometimes"},
        {"httpSource": {"proxy": {}}},
        {"httpSource": {"sha256": "a"}},
        {"httpSource": {"maxBytes": 0}},
        {"httpSource": {"timeoutSeconds": 3601}},
        {"httpSource": {"secretRef": {"name": ""}}},
        {"localSource": {}},
    ],
)
def test_the_schema_refuses_invalid_values(broken: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(broken, CRDTarball)
