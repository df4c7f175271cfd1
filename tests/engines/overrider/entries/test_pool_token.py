"""Tests that misspellings of ``{{nodepool}}`` are found."""

import pytest

from fleethook.engines.overrider.entries.pool_token import misspelled_token


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("a-{{ nodepool }}", "{{ nodepool }}"),
        ("{{nodepool-name}}/app", "{{nodepool-name}}"),
        ("{{NodePool}}", "{{NodePool}}"),
        ("{{ .NodePool }}", "{{ .NodePool }}"),
        ("{{node_pool}}", "{{node_pool}}"),
        ("{{nodepoool}}", None),
        ("{{pool}}", "{{pool}}"),
        ("{nodepool}", "{nodepool}"),
        ("{{nodepool}", "{{nodepool}"),
        ("{{nodepool}}", None),
        ("x{{nodepool}}y{{nodepool}}", None),
        ("{{nodepool}}-{{ nodepool }}", "{{ nodepool }}"),
        ("${nodepool}", None),
        ("$(nodepool)", None),
        ("{{ .Values.nodepool.size }}", None),
        ('{{ include "pool" . }}', None),
        ('{"pool": 1}', None),
        ("{" * 1000, None),
    ],
)  # fmt: skip
def test_misspelled_tokens_are_found(text: str, token: str | None) -> None:
    assert misspelled_token(text) == token
