"""Kubeconfigs of Secrets, which untrusted users may have written."""

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.apply.instance_server import read_kubeconfig
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.e2e.pki import Authority

SECRET = "s3cr3t-t0ken"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("kubeconfig"), "instance-ca")


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture
def config(authority: Authority) -> dict[str, Any]:
    pair = authority.issue("karmada-admin")
    return {
        "current-context": "c",
        "clusters": [
            {"name": "k", "cluster": {"server": "https://h:5443", "certificate-authority-data": encoded(authority.certificate)}}
        ],
        "users": [{"name": "u", "user": {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }  # fmt: skip


def read(config: Any) -> Any:
    return read_kubeconfig(
        config if isinstance(config, bytes) else yaml.safe_dump(config).encode(), max_response_bytes=9
    )


def test_the_kubeconfig_of_the_operator_is_accepted(config: dict[str, Any]) -> None:
    found = read(config)
    assert (found.server, found.token, found.max_response_bytes) == ("https://h:5443", "", 9)
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert found.tls.check_hostname
    assert len(found.tls.get_ca_certs()) == 1
    config["users"][0]["user"] = {"token": SECRET}
    found = read(config)
    assert found.token == SECRET
    assert SECRET not in repr(found)


Change = Callable[[dict[str, Any]], object]


def user(**members: Any) -> Change:
    return lambda config: config["users"][0]["user"].update(members)


def cluster(**members: Any) -> Change:
    return lambda config: config["clusters"][0]["cluster"].update(
        {name.replace("_", "-"): value for name, value in members.items()}
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (user(exec={"command": "sh"}), "exec of its user is not supported"),
        (user(**{"auth-provider": {"name": "x"}}), "auth-provider of its user"),
        (user(tokenFile="/etc/passwd"), "tokenFile of its user"),
        (user(**{"client-key": "/key"}), "client-key of its user"),
        (user(token=f"{SECRET}\nX: y"), "characters that are invalid in an HTTP header"),
        (user(token=[SECRET]), "token is not a string"),
        (user(**{"client-key-data": SECRET}), "client-key-data is not base64"),
        (user(**{"client-key-data": ""}), "client certificate or key is missing"),
        (cluster(insecure_skip_tls_verify=True), "insecure-skip-tls-verify of its cluster"),
        (cluster(certificate_authority="/ca"), "certificate-authority of its cluster"),
        (cluster(proxy_url="http://p"), "proxy-url of its cluster"),
        (cluster(certificate_authority_data="QUJD"), "unable to parse bytes as PEM block"),
        (cluster(certificate_authority_data=""), "certificate-authority-data"),
        *(
            (cluster(server=url), "its server is not an https URL with a host")
            for url in (
                "http://h",
                "https://",
                "https://u:p@h",
                "https://h?a",
                "https://h#a",
                "https://h:x",
                "h",
                "https://h /a",
            )
        ),
        (
            lambda config: config.update({"current-context": "other"}),
            "does not have the context of its current-context",
        ),
        (lambda config: config.update(clusters=[]), "does not have the cluster of"),
        (lambda config: config.update(users=None), "does not have the user of"),
    ],
)
def test_kubeconfig_fields_that_upstream_does_not_write_are_refused(
    config: dict[str, Any], change: Change, text: str
) -> None:
    change(config)
    with pytest.raises(CRDsError) as raised:
        read(config)
    assert raised.value.exit is Exit.USAGE
    assert text in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"\xff", f"{SECRET}: [".encode(), f"{{{SECRET}: 1, {SECRET}: 2}}".encode(), b"[" * 100000]
)
def test_a_text_that_is_no_kubeconfig_is_not_quoted(text: bytes) -> None:
    with pytest.raises(CRDsError, match="the kubeconfig cannot be used: ") as raised:
        read(text)
    assert SECRET not in str(raised.value)
