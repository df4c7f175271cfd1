"""Tests of the names of an instance's objects."""

import pytest

from fleethook.engines.crds.instance.naming import admin_config_secret_name, cert_secret_name, webhook_name


@pytest.mark.parametrize(
    ("instance", "prefix"), [("demo", "demo-karmada"), ("karmada", "karmada"), ("my-karmada", "my-karmada")]
)
def test_a_name_has_karmada_once(instance: str, prefix: str) -> None:
    names = (webhook_name(instance), cert_secret_name(instance), admin_config_secret_name(instance))
    assert names == (f"{prefix}-webhook", f"{prefix}-cert", f"{prefix}-admin-config")
