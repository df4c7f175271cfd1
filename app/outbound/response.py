"""What an answer of a webhook means: its body, or why it is none (client-go rest/request.go; research 3)."""

from typing import Final

import aiohttp
import msgspec
from yarl import URL

from app.model.json import JSON, as_object
from app.outbound.body import BodyError, read_body
from app.outbound.errors import CallError, escaped, excerpt, posting, quoted

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
# Where the body is what there is to say.
_SAID_BY_THE_SERVER: Final = (403, 406)


async def read_response(response: aiohttp.ClientResponse, *, url: URL, limit: int) -> bytes:
    """Return the body of an answer that is a success.

    Args:
        response: Its body is read to the end, if nothing is raised.
        url: What was called.
        limit: Bytes that a body may have.

    Raises:
        CallError: It is none: a redirect, another status, a body that is empty or cannot be read.
    """
    code = response.status
    location = response.headers.get("Location")
    if 300 <= code < 400 and location is not None:
        raise CallError(posting(url, _redirect(url, location)), code=code)
    try:
        body = await read_body(response, limit=limit)
    except BodyError as error:
        raise CallError(posting(url, escaped(str(error))), code=code) from None
    if not 200 <= code <= 206:
        raise CallError(_status_message(body) or _generic(code, body), code=code)
    if not body:
        content_type = escaped(response.headers.get("Content-Type", ""))
        raise CallError(f"0-length response with status code: {code} and content type: {content_type}", code=code)
    return body


def _redirect(url: URL, location: str) -> str:
    """Return why a redirect is not followed (CVE-2020-8561); of where to, only the host, for the rest may be secret."""
    try:
        target = url.join(URL(location))
        where = f"{target.scheme}://{target.raw_authority.rpartition('@')[2]}"
    except ValueError:
        where = "somewhere that is no URL"
    return f"redirect to {escaped(where)} refused: webhooks must answer themselves"


def _status_message(body: bytes) -> str:
    """Return the message of a ``metav1.Status`` that is a failure, ``""`` if the body is none or has none."""
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


def _generic(code: int, body: bytes) -> str:
    if code in _GENERIC:
        return _GENERIC[code]
    if code in _SAID_BY_THE_SERVER and body:
        return escaped(excerpt(body))
    if code >= 500:
        return (
            f"an error on the server ({quoted(excerpt(body) or 'unknown')}) has prevented the request from succeeding"
        )
    return f"the server responded with the status code {code} but did not return more information"
