"""Settings with rules beyond their types."""

from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.server_settings import ServerSettings, is_loopback, parse_bytes
from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"kcp": True}, "--kcp needs a kubeconfig of the kcp: give --kubeconfig"),
        ({"kcp": True, "manifests": "examples"}, "--kcp needs a kubeconfig of the kcp: give --kubeconfig"),
        ({"context": "root"}, "--context needs a kubeconfig: give --kubeconfig"),
        ({"context": "root", "in_cluster": True}, "--context needs a kubeconfig: give --kubeconfig"),
    ],
)
def test_kcp_and_context_need_a_kubeconfig(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Settings(**given)


@pytest.mark.parametrize(("given", "listed"), [(["crds", "x"], "'x'"), (["y", "crds", "x"], "'x', 'y'")])
def test_unknown_engines_are_refused_with_the_installed_ones(given: Any, listed: str) -> None:
    expected = f"there is no engine {listed}; give some of crds, dispatch, interpret, overrider, rules"
    with pytest.raises(ValidationError, match=expected):
        Settings(engines=given)


def test_all_installed_engines_are_enabled_by_default() -> None:
    assert ServerSettings().engines == {"crds", "dispatch", "interpret", "overrider", "rules"}


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("a", False)]
)
def test_a_loopback_host_is_an_address_or_localhost(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_quantity_is_a_number_of_bytes() -> None:
    assert (parse_bytes("1Ki"), parse_bytes(5)) == (1024, 5)
