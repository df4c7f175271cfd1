from typing import Any

import pytest

from fleethook.console.users.client_certificate import EXTENSION, find_certificate_user, read_certificate_user


def certificate(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((pair,) for pair in pairs)}


def test_common_name_and_organizations_are_user_and_groups() -> None:
    user = read_certificate_user(certificate(("organizationName", "a"), ("organizationName", "b"), ("commonName", "u")))
    assert user is not None
    assert (user.name, user.groups) == ("u", ("a", "b", "system:authenticated"))


def test_the_last_common_name_counts_as_in_kube_apiserver() -> None:
    user = read_certificate_user(certificate(("commonName", "first"), ("commonName", "last")))
    assert user is not None
    assert user.name == "last"


@pytest.mark.parametrize("given", [None, {}, certificate(("organizationName", "system:masters"))])
def test_a_certificate_without_a_common_name_names_no_user(given: Any) -> None:
    assert read_certificate_user(given) is None


def test_a_request_without_a_certificate_has_no_user() -> None:
    user = read_certificate_user(certificate(("commonName", "u")))
    assert find_certificate_user({"extensions": {EXTENSION: {"user": user}}}) is user
    assert find_certificate_user({"extensions": {}}) is None
    assert find_certificate_user({}) is None
