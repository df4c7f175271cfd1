"""Reviews whose objects have exact bytes, which no encoder of JSON would write."""

import json
from typing import Any

PLAIN = b'{"metadata":{"name":"a","annotations":{"note":"x"}},"spec":{"size":1}}'
LARGE = b'{"metadata":{},"spec":"%b"}' % (b"x" * 40_000)
NOT_UTF8 = (b'"\xff"', b'{"\xc3":1}', b'["\xed\xa0\x80"]')
TOO_LARGE_NUMBERS = (b"1e999", b"-1e999", b"1" * 5_000)


def encode_review(
    document: bytes = PLAIN,
    *,
    old: bytes = b"null",
    user: bytes = b'{"username":"alice"}',
    options: bytes = b"null",
    resource: tuple[str, str] = ("apps", "Deployment"),
    **request: Any,
) -> bytes:
    """Return a review whose objects have exactly these bytes."""
    group, kind = resource
    members = {
        "uid": "u-1", "operation": "CREATE", "namespace": "default",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": f"{kind.lower()}s"},
        **request,
    }  # fmt: skip
    raw = {"object": document, "oldObject": old, "userInfo": user, "options": options}
    text = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in raw.items())
    head = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})[:-1].encode()
    return b'%b,"request":%b,%b}}' % (head, json.dumps(members)[:-1].encode(), text)
