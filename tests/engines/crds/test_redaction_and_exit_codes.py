"""URLs without secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.crds.redaction_and_exit_codes import redact


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a/crds.tar.gz", "https://example.com/a/crds.tar.gz"),
        ("https://user:secret@example.com/x", "https://***@example.com/x"),
        ("https://secret@example.com/x", "https://***@example.com/x"),
        ("https://user:p@ss@example.com/x", "https://***@example.com/x"),
        ("http://user:se/cret@example.com/x", "http://***@example.com/x"),
        ("user:secret@proxy:3128", "***@proxy:3128"),
        ("socks5://user:secret@proxy:1080", "socks5://***@proxy:1080"),
        ("https://example.com/@scope/x", "https://example.com/@scope/x"),
        ("https://[::1]:8443/x", "https://[::1]:8443/x"),
        ("https://e.com/x?version=v1&token=abc", "https://e.com/x?version=v1&token=***"),
        ("https://e.com/x?X-Amz-Signature=abc&X-Amz-Date=1", "https://e.com/x?X-Amz-Signature=***&X-Amz-Date=1"),
        ("https://e.com/x?sp=r&sig=abc%3D&jwt=e.y.J", "https://e.com/x?sp=r&sig=***&jwt=***"),
        ("https://e.com/x?%74oken=abc", "https://e.com/x?%74oken=***"),
        ("https://e.com/x?a=1;api_key=abc", "https://e.com/x?a=1;api_key=***"),
        ("https://e.com/x#access_token=abc", "https://e.com/x#access_token=***"),
        ("https://e.com/x?token=a=b", "https://e.com/x?token=***"),
        ("https://e.com/x\nlevel=error", "https://e.com/x%0Alevel=error"),
        ("not-found-url", "not-found-url"),
        ("", ""),
    ],
)
def test_secrets_are_hidden(url: str, shown: str) -> None:
    assert redact(url) == shown


@given(st.text())
def test_nothing_raises_and_twice_is_as_once(url: str) -> None:
    assert redact(redact(url)) == redact(url)


SECRET = st.text("abcdefXYZ0123456789!$*+,-._~:@/", min_size=1).map(lambda text: f"S3CR3T{text}S3CR3T")


@given(password=SECRET, user=st.sampled_from(["u", "", "a.b"]))
def test_no_password_is_shown(password: str, user: str) -> None:
    assert "S3CR3T" not in redact(f"https://{user}:{password}@example.com/crds.tar.gz?a=b")
