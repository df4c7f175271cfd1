"""DER of certificates: malformed encodings are errors of one type."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.outbound.tls.certificate_der import CertificateError, read_elements, read_extensions, read_name


@pytest.mark.parametrize("encoded", ["30", "3005", "300500", "3f0100", "308400000001", "30ff"])
def test_truncated_elements_are_malformed(encoded: str) -> None:
    with pytest.raises(CertificateError, match="malformed certificate"):
        read_elements(bytes.fromhex(encoded))


@pytest.mark.parametrize(
    ("encoded", "text"), [("0c026869", "hi"), ("13026869", "hi"), ("1e0400680069", "hi"), ("1402e968", "éh")]
)
def test_the_string_types_of_names_are_decoded(encoded: str, text: str) -> None:
    attribute = bytes.fromhex("0603550403" + encoded)
    group = bytes([0x30, len(attribute)]) + attribute
    name = bytes([0x31, len(group)]) + group
    assert read_name(bytes([0x30, len(name)]) + name) == {bytes.fromhex("550403"): text}
    with pytest.raises(CertificateError, match="attribute"):
        read_name(bytes([0x30, len(name)]) + name.replace(bytes.fromhex(encoded)[:1], b"\x04", 1)[: len(name)])


@given(st.binary(max_size=60))
def test_no_other_exception_leaves_the_decoder(content: bytes) -> None:
    for decode in (read_elements, read_extensions):
        with contextlib.suppress(ValueError):
            decode(content)
