"""The objects that `fleethook uninstall` takes for its own."""

from typing import Any

import pytest

from fleethook.cli.uninstall.uninstall_objects import guess_secrets, has_our_keys, is_our_configuration, is_ours


def document(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


@pytest.mark.parametrize(
    ("name", "fields", "ours"),
    [
        ("fleethook", {}, True),
        ("other", {"metadata": {"labels": {"app.kubernetes.io/name": "fleethook"}}}, True),
        (
            "renamed",
            {"metadata": {"labels": {"app.kubernetes.io/name": "x", "helm.sh/chart": "fleethook-0.3.0"}}},
            True,
        ),
        ("fleethook-dispatch", {"webhooks": [{"name": "mutate.dispatch.fleethook.io"}]}, True),
        ("mixed", {"webhooks": [{"name": "a.fleethook.io"}, {"name": "a.example.org"}]}, False),
        (
            "other",
            {"metadata": {"labels": {"helm.sh/chart": "fleethookish-1"}}, "webhooks": [{"name": "a.b.c"}]},
            False,
        ),
        ("empty", {"webhooks": []}, False),
    ],
)
def test_only_configurations_that_call_fleethook_are_ours(name: str, fields: Any, ours: bool) -> None:
    assert is_our_configuration(document(name, **fields)) is ours


@pytest.mark.parametrize(
    ("name", "ours"), [("fleethook-crds", True), ("fleethook-console", True), ("fleethook-x", False)]
)
def test_objects_of_the_charts_components_are_ours(name: str, ours: bool) -> None:
    assert is_ours(document("role", metadata={"labels": {"app.kubernetes.io/name": name}})) is ours


def test_the_secret_of_the_chart_is_guessed_by_the_service_and_known_by_its_keys() -> None:
    hooks = [
        {"clientConfig": {"service": {"namespace": "a", "name": "fleethook"}}},
        {"clientConfig": {"url": "https://x"}},
    ]
    assert list(guess_secrets(document("fleethook", webhooks=hooks))) == [("a", "fleethook-certs")]
    keys = ("ca.key", "tls.key", "tls.crt")
    assert [has_our_keys({"data": dict.fromkeys(one, "")}) for one in (keys, keys[1:])] == [True, False]
    assert not has_our_keys({})
