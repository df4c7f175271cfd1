"""The settings of dispatching with rules beyond their types."""

import pytest
from pydantic import ValidationError

from fleethook.engines.dispatch.dispatch_settings import DispatchSettings
from fleethook.settings import Settings


def test_dispatch_callers_need_a_ca_of_client_certificates() -> None:
    with pytest.raises(ValidationError, match="dispatch_callers needs client_ca_file"):
        Settings(dispatch_callers=["kube-apiserver"])


@pytest.mark.parametrize(
    ("host", "given", "allowed"),
    [("127.0.0.1", None, True), ("10.0.0.1", None, False), ("10.0.0.1", True, True), ("127.0.0.1", False, False)],
)
def test_webhooks_at_private_addresses_are_called_on_loopback_or_if_they_are_allowed(
    host: str, *, given: bool | None, allowed: bool
) -> None:
    settings = Settings(host=host, private_webhooks=given).section(DispatchSettings)
    assert settings.calls_private_webhooks is allowed
