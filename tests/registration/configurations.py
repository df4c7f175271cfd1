"""A scripted apiserver that has one webhook configuration."""

from typing import Any

from tests.apiserver_rules import not_found, parse_path


class Server:
    """The mutating configuration, and the requests that wrote one."""

    def __init__(self, present: Any) -> None:
        self.present = present
        self.written: list[tuple[str, dict[str, str], Any]] = []

    async def json(self, _method: str, path: str) -> Any:
        if self.present is None or "validating" in path:
            raise not_found(parse_path(path))
        return self.present

    async def request(self, _method: str, path: str, *, query: Any, body: Any, **_: Any) -> bytes:
        self.written.append((path.rpartition("/")[2], query, body["webhooks"]))
        return b"{}"
