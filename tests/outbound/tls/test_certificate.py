"""Certificates: each malformed one is an error of one type, and servers with the usual keys are called."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from fleethook.outbound.tls.certificate import parse_certificate, read_subject
from fleethook.outbound.tls.certificate_der import CertificateError

DATA: Final = json.loads(
    (Path(__file__).parents[2] / "conformance" / "go_certificates.json").read_text(encoding="utf-8")
)
CERTIFICATES: Final = [base64.b64decode(one) for one in DATA["certificates"]]


@given(st.data())
def test_a_changed_certificate_is_parsed_or_refused(data: st.DataObject) -> None:
    encoded = bytearray(data.draw(st.sampled_from(CERTIFICATES[:60])))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    for read in (parse_certificate, read_subject):
        with contextlib.suppress(CertificateError):
            read(bytes(encoded))


def test_the_title_is_the_common_name() -> None:
    certificate = parse_certificate(CERTIFICATES[0])
    assert (certificate.title, certificate.extensions.is_authority) == ("CA", True)
