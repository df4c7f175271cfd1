"""Read the response of a webhook, or fail with the message of client-go (k8s.io/client-go/rest/request.go)."""

from typing import Final

import aiohttp
import msgspec
from yarl import URL

from fleethook.model.json import JSON, as_object
from fleethook.outbound.body import BodyError, read_body
from fleethook.outbound.call_errors import CallError, escaped, excerpt, posting, quoted

# apimachinery's NewGenericServerResponse, for a POST.
_GENERIC: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# For these statuses client-go reports the body.
_REPORTED_BY_BODY: Final = (403, 406)


async def read_response(response: aiohttp.ClientResponse, *, url: URL, limit: int) -> bytes:
    """Return the body of a successful response.

    Args:
        response: The response; its body is read to the end, unless an error is raised.
        url: The URL of the call.
        limit: The maximum size of the body in bytes.

    Raises:
        CallError: The response is a redirect, has another status, or its body is empty or cannot be read.
    """
    code = response.status
    location = response.headers.get("Location")
    if 300 <= code < 400 and location is not None:
        raise CallError(posting(url, _refuse_redirect(url, location)), code=code)
    try:
        body = await read_body(response, limit=limit)
    except BodyError as error:
        raise CallError(posting(url, escaped(str(error))), code=code) from None
    if not 200 <= code <= 206:
        raise CallError(_status_message(body) or _describe_status(code, body), code=code)
    if not body:
        content_type = escaped(response.headers.get("Content-Type", ""))
        raise CallError(f"0-length response with status code: {code} and content type: {content_type}", code=code)
    return body


def _refuse_redirect(url: URL, location: str) -> str:
    """Return why a redirect is not followed (CVE-2020-8561). It shows only the host: the path may be secret."""
    try:
        target = url.join(URL(location))
        where = f"{target.scheme}://{target.raw_authority.rpartition('@')[2]}"
    except ValueError:
        where = "an invalid URL"
    return f"redirect to {escaped(where)} refused: webhooks must answer themselves"


def _status_message(body: bytes) -> str:
    """Return the message of a failure ``metav1.Status``, ``""`` if the body is no such Status or has no message."""
    try:
        status: JSON = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    members = as_object(status)
    message = members.get("message")
    known = members.get("kind") == "Status" and members.get("apiVersion") == "v1"
    if not known or members.get("status") == "Success" or not isinstance(message, str):
        return ""
    return escaped(excerpt(message.encode("utf-8", "replace")))


def _describe_status(code: int, body: bytes) -> str:
    if code in _GENERIC:
        return _GENERIC[code]
    if code in _REPORTED_BY_BODY and body:
        return escaped(excerpt(body))
    if code >= 500:
        return (
            f"an error on the server ({quoted(excerpt(body) or 'unknown')}) has prevented the request from succeeding"
        )
    return f"the server responded with the status code {code} but did not return more information"
