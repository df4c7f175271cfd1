"""Settings with rules beyond their types."""

from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("text", "found"), [("256Mi", 256 << 20), ("1Gi", 1 << 30), ("2.68435456e+08", 256 << 20), (" 5M ", 5_000_000)]
)
def test_the_plan_cache_takes_a_quantity(monkeypatch: pytest.MonkeyPatch, text: str, found: int) -> None:
    monkeypatch.setenv("FLEETHOOK_PLAN_CACHE_BYTES", text)
    assert Settings().plan_cache_bytes == found


@pytest.mark.parametrize("text", ["256 MB", "", "1Ki", "2Ti"])
def test_an_invalid_size_of_the_plan_cache_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FLEETHOOK_PLAN_CACHE_BYTES", text)
    with pytest.raises(ValidationError, match="plan_cache_bytes"):
        Settings()


def test_dispatch_callers_need_a_ca_of_client_certificates() -> None:
    with pytest.raises(ValidationError, match="dispatch_callers needs client_ca_file"):
        Settings(dispatch_callers=["kube-apiserver"])


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
