"""A webhook that excludes its own objects is not locked out, and the certificate that it serves is trusted."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from fleethook.cluster.certificates.certificate_authority import issue_serving, new_authority
from tests.engines.dispatch.lint.builders import NOT_ITSELF, OWN, find_issues, list_codes, own, validating

NOW = datetime.now(UTC)
AUTHORITY, OTHER = new_authority(now=NOW), new_authority(now=NOW)
SERVED = issue_serving(AUTHORITY, names=["hook.hooks.svc"], now=NOW).certificate_pem


def test_object_selectors_and_conditions_count_as_exclusions() -> None:
    labelled = own(objectSelector={"matchExpressions": [{"key": "hook", "operator": "DoesNotExist"}]})
    conditional = own(matchConditions=[{"name": "a", "expression": "request.userInfo.username != 'hook'"}])
    assert list_codes(validating(labelled, cluster="")) == list_codes(validating(conditional, cluster="")) == []


def secret(pem: bytes, namespace: str = "hooks", *, name: str = "tls", plain: bool = False) -> dict[str, Any]:
    content = (
        {"stringData": {"tls.crt": pem.decode()}} if plain else {"data": {"tls.crt": base64.b64encode(pem).decode()}}
    )
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, **content}


@pytest.mark.parametrize(
    ("bundle", "secrets", "is_found"),
    [
        (OTHER, [secret(SERVED)], True),
        (OTHER, [secret(SERVED, plain=True)], True),
        (AUTHORITY, [secret(SERVED)], False),
        (OTHER, [secret(SERVED, "other")], False),
        (OTHER, [secret(b"nothing")], False),
        (OTHER, [secret(issue_serving(AUTHORITY, names=["a.b.svc"], now=NOW).certificate_pem)], False),
        (AUTHORITY, [secret(SERVED), secret(issue_serving(OTHER, names=["hook.hooks.svc"], now=NOW).certificate_pem, name="old")], False),
    ],
)  # fmt: skip
def test_the_bundle_accepts_the_certificate_of_the_secret(bundle: Any, secrets: list[Any], *, is_found: bool) -> None:
    config = {**OWN, "caBundle": base64.b64encode(bundle.certificate_pem).decode()}
    hook = validating(own(clientConfig=config, namespaceSelector=NOT_ITSELF), cluster="")
    expected = (
        "clientConfig.caBundle: it does not accept the certificate of Secret hooks/tls, which is for hook.hooks.svc: "
        "x509: certificate signed by unknown authority"
    )
    texts = [text for code, _, text in find_issues(hook, *secrets) if code == "untrusted-certificate"]
    assert [text.startswith(expected) for text in texts] == [True] * is_found
