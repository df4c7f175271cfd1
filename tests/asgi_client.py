"""Calls an ASGI app directly, so that a test controls every event."""

import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def call(
    app: Any,
    path: str,
    *chunks: bytes | None,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    query: bytes = b"timeout=10s",
    extensions: dict[str, Any] | None = None,
) -> Answer:
    """Send one request; each chunk is a body event, None a client that goes away."""
    sent: list[Any] = []
    given = {"content-type": "application/json"} if headers is None else headers
    queue: list[Any] = [
        {"type": "http.disconnect"}
        if chunk is None
        else {"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1}
        for index, chunk in enumerate(chunks or (b"",))
    ]

    async def receive() -> Any:
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": query, "root_path": "", "scheme": "https", "server": ("localhost", 443),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "extensions": extensions or {},
    }  # fmt: skip
    await app(scope, receive, send)
    if not sent:
        return Answer(0, {}, b"")
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}, body)
