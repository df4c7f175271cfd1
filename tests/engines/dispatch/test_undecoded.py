"""Objects that no webhook is called about stay undecoded, and the answers are the same as if they were decoded."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleethook.engines.dispatch import dispatcher
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.dispatcher import Dependencies, Dispatcher, DispatchResult
from fleethook.engines.dispatch.hooks.hook_index import Configurations
from fleethook.engines.dispatch.hooks.hooks import PHASES, Phase
from fleethook.engines.dispatch.match.rules import can_stay_undecoded
from fleethook.model.admission import AdmissionRequest
from fleethook.server.log_format import make_admission_line
from fleethook.server.reviews.admission_endpoint import to_response
from fleethook.server.reviews.codec import decode_review, encode_response
from fleethook.server.reviews.review_endpoint import explain_failure
from tests.engines.dispatch.builders import WIDGETS, binding, configuration, namespace, store_of, webhook
from tests.engines.dispatch.raw_reviews import LARGE, NOT_UTF8, PLAIN, TOO_LARGE_NUMBERS, encode_review
from tests.hypothesis_profiles import examples
from tests.waiting import NET


def decode(body: bytes) -> AdmissionRequest:
    request = decode_review(body).request
    assert request is not None
    return request


def never_called(*_: Any, **__: Any) -> Any:
    pytest.fail("a webhook is called, or an object converted")


HOOK = webhook(rules=[WIDGETS], matchConditions=[{"name": "never", "expression": "false"}])
STORE = store_of(
    namespace("a"),
    namespace("nobody"),
    binding("nobody", "gone", "deployments.apps"),
    *(configuration("a", phase, HOOK) for phase in PHASES),
)
DISPATCHER = Dispatcher(STORE, Configurations(STORE), Dependencies(call_webhook=never_called, convert=never_called))


def dispatch(request: AdmissionRequest, *, cluster: str = "a", phase: Phase = "mutating") -> DispatchResult:
    deadline = Deadline(time.monotonic() + NET)
    return asyncio.run(DISPATCHER.dispatch(request, cluster=cluster, phase=phase, deadline=deadline))


def observe(body: bytes, *, cluster: str, phase: Phase, decides: Callable[..., bool]) -> tuple[Any, ...]:
    """Return the answer to a review and its log line; ``decides`` says whether its objects may stay undecoded."""
    review = decode_review(body)
    assert review.request is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "can_stay_undecoded", decides)
        try:
            found = dispatch(review.request, cluster=cluster, phase=phase)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = DispatchResult(to_response(explain_failure(error, route="/", uid=review.uid)), None)
    line = make_admission_line("/", review, found.response, seconds=0, request_id="")
    line.ts = ""
    target = found.target
    summary = None if target is None else (target.ownership, target.exempt, target.relevant)
    return encode_response(found.response, uid=review.uid, api_version=review.api_version), line, summary


def join_members(members: list[tuple[bytes, bytes]]) -> bytes:
    """Return an object of JSON; names may be there several times."""
    return b"{%b}" % b",".join(b'"%b":%b' % member for member in members)


def draw_objects(names: list[bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.tuples(st.sampled_from(names), values), max_size=3).map(join_members)


VALUES = st.sampled_from([
    b"null", b"{}", b"[]", b"3", b"1.5e3", b"true", b'"x"', '"ü"'.encode(), b'"\\u00fc"', b"18446744073709551616", *NOT_UTF8,
])  # fmt: skip
CLUSTERS = st.sampled_from([b'"a"', b'"b"', b'""', b"null", b"3"])
ANNOTATIONS = draw_objects([b"kcp.io/cluster", b"kcp.io\\/cluster", b"note"], CLUSTERS | VALUES)
METADATA = draw_objects([b"annotations", b"annotations", b"generateName", b"name", b"labels"], ANNOTATIONS | VALUES)
DOCUMENTS = st.one_of(
    st.just(PLAIN),
    VALUES,
    draw_objects([b"metadata", b"metadata", b"met\\u0061data", b"spec"], METADATA | VALUES),
    st.just(LARGE),
)
REVIEWS = st.builds(
    encode_review,
    DOCUMENTS,
    old=st.just(b"null") | DOCUMENTS,
    user=st.sampled_from([b'{"username":"alice"}'] * 4 + [b"null", b"3", *NOT_UTF8]),
    options=st.sampled_from([b"null"] * 4 + [b"{}", *NOT_UTF8]),
    resource=st.sampled_from(
        [("apps", "Deployment")] * 3 + [("example.org", "Widget"), ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")]
    ),
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]),
    name=st.sampled_from(["", "a"]),
    dryRun=st.sampled_from([None, True, False]),
)  # fmt: skip


NAMED_OLD = b'{"metadata":{"annotations":{"kcp.io/cluster":"b"},"generateName":"g-"}}'


REPEATED = b'{"metadata":[],"metadata":{"annotations":{"kcp.io/cluster":"a"}}}'


@example(encode_review(old=REPEATED, operation="CREATE", name=""), "a", "mutating")
@example(encode_review(b"null", old=NAMED_OLD, operation="DELETE", name=""), "a", "validating")
@example(encode_review(b'{"spec":{}}', old=NAMED_OLD, operation="UPDATE", name=""), "a", "validating")
@given(REVIEWS, st.sampled_from(["a", "a", "nobody", "unknown"]), st.sampled_from(["mutating", "validating"]))
@settings(max_examples=examples(400))
def test_a_review_is_answered_as_if_all_of_it_was_decoded(body: bytes, cluster: str, phase: Phase) -> None:
    usual = observe(body, cluster=cluster, phase=phase, decides=can_stay_undecoded)
    assert usual == observe(body, cluster=cluster, phase=phase, decides=lambda *_, **__: False)


def list_odd() -> Iterator[Any]:
    """Yield reviews of which more than the annotations has to be decoded."""
    spoiled = [PLAIN.replace(b'"x"', value) for value in NOT_UTF8] + [PLAIN.replace(b"1", value) for value in NOT_UTF8]
    for document in spoiled:
        yield encode_review(document)
        yield encode_review(b"null", old=document, operation="DELETE")
    for value in NOT_UTF8:
        yield encode_review(user=value)
        yield encode_review(options=value)
    for metadata in (b"null", b"3", b"[]", b'{"annotations":3}', b'{"annotations":{"kcp.io/cluster":null}}'):
        yield encode_review(b'{"metadata":%b}' % metadata)
    yield encode_review(PLAIN, old=b'{"metadata":{"annotations":[]}}', operation="UPDATE")
    yield encode_review(b'{"metadata":{"annotations":3}}', operation="CONNECT")
    yield encode_review(b'{"metadata":{},"metadata":null}')
    yield encode_review(b'{"spec":{}}')
    yield encode_review(b"{}")
    yield encode_review(LARGE)
    yield encode_review(PLAIN.replace(b'"x"', b"1e999"))


@pytest.mark.parametrize("body", list(list_odd()), ids=lambda body: repr(body[150:-1])[-80:])
def test_an_odd_review_is_decoded(body: bytes) -> None:
    assert not can_stay_undecoded(decode(body), cluster="a")


@pytest.mark.parametrize(
    "body",
    [
        encode_review(),
        encode_review(old=PLAIN, operation="UPDATE"),
        encode_review(b"null", old=PLAIN, operation="DELETE"),
        encode_review(PLAIN, operation="CONNECT"),
        encode_review(b'{"metadata":{}}'),
        encode_review(b'{"metadata":{"annotations":null}}'),
        encode_review(b'{"metadata":{"annotations":{"kcp.io/cluster":"b"}}}'),
        encode_review(b'{"metadata":null,"metadata":{}}'),
        encode_review(PLAIN.replace(b"1", '"ü"'.encode())),
    ],
)
def test_of_an_ordinary_review_only_the_annotations_are_decoded(body: bytes) -> None:
    request = decode(body)
    assert dispatch(request).response.allowed
    assert not {"object", "old_object", "user", "decoded_options"} & set(request.__dict__)


def test_metadata_of_null_is_patched_to_an_empty_object() -> None:
    patch = dispatch(decode(encode_review(b'{"metadata":null}'))).response.patch
    assert patch == [{"op": "replace", "path": "/metadata", "value": {}}]


@pytest.mark.parametrize("value", NOT_UTF8)
@pytest.mark.parametrize("kind", [("apps", "Deployment"), ("example.org", "Widget")])
def test_invalid_utf8_is_refused_with_and_without_webhooks(value: bytes, kind: tuple[str, str]) -> None:
    with pytest.raises(UnicodeDecodeError):
        dispatch(decode(encode_review(PLAIN.replace(b"1", value), resource=kind)))


@pytest.mark.parametrize("value", TOO_LARGE_NUMBERS)
def test_a_number_beyond_a_double_is_refused_only_if_a_webhook_could_read_it(value: bytes) -> None:
    document = PLAIN.replace(b"1", value)
    assert dispatch(decode(encode_review(document))).response.allowed
    with pytest.raises(msgspec.ValidationError, match="out of range"):
        dispatch(decode(encode_review(document, resource=("example.org", "Widget"))))
    with pytest.raises(msgspec.ValidationError, match="out of range"):
        dispatch(decode(encode_review(PLAIN.replace(b'"x"', value))))
