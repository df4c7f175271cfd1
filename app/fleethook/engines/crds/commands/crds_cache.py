"""``fleethook crds cache``: commands about the entries of the cache."""

import re
from datetime import timedelta
from typing import Annotated, Final

from fleethook.cli.command_line import Argument, Group, Option
from fleethook.cli.options import Output, TextOutputOption
from fleethook.engines.crds.cache.cache_entry import Listed, is_key
from fleethook.engines.crds.commands.crds_options import (
    exit_on_error,
    open_cache,
    show,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.tarball_source import Source

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_NUMBER: Final = re.compile(r"(\d{1,15})\s*([A-Za-z]*)", re.ASCII)


def parse_age(text: str) -> int:
    """Return an age in seconds; raises ValueError."""
    return _parse(text, _SECONDS, "an age such as 30d or 12h")


def parse_size(text: str) -> int:
    """Return a size in bytes; raises ValueError."""
    return _parse(text, _BYTES, "a size such as 200MiB")


def _parse(text: str, units: dict[str, int], wanted: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    unit = None if match is None else units.get(match[2].lower())
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not {wanted}")
    return int(match[1]) * unit


_EntryArgument = Annotated[str, Argument(metavar="URL|KEY", help="URL of a tarball, or the key of its entry.")]


def _parse_key(entry: str) -> str:
    return entry if is_key(entry) else Source(entry).key


def _format_line(one: Listed) -> str:
    url = one.record.url if one.record else ""
    return f"{one.key}  {one.state:<8} {one.size:>12,}  {one.asked_at:%Y-%m-%d %H:%M}  {url or one.problem}"


def _build_document(one: Listed) -> dict[str, object]:
    record = one.record
    return {
        "key": one.key, "path": one.path, "state": one.state, "bytes": one.size, "asked_at": one.asked_at,
        "url": record.url if record else "", "sha256": record.sha256 if record else "", "problem": one.problem,
    }  # fmt: skip


def list_entries(output: TextOutputOption = Output.TEXT) -> None:
    """List the entries."""
    with exit_on_error():
        found = open_cache().entries()
        show(output, list(map(_format_line, found)) or ["the cache is empty"], [_build_document(one) for one in found])


def prune(
    older_than: Annotated[
        str | None, Option(help="Age, such as 30d, since the origin last confirmed an entry.")
    ] = None,
    max_size: Annotated[
        str | None, Option(help="Size of the cache, such as 200MiB; the oldest entries beyond it are removed.")
    ] = None,
    keep: Annotated[int, Option(minimum=0, help="Number of newest entries to keep in any case.")] = 0,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the entries without removing them.")] = False,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Remove entries that are too old, then those that exceed the size; entries in use stay."""
    with exit_on_error():
        try:
            age = None if older_than is None else timedelta(seconds=parse_age(older_than))
            size = None if max_size is None else parse_size(max_size)
        except (ValueError, OverflowError) as error:
            raise CRDsError(Exit.USAGE, str(error)) from None
        if age is None and size is None:
            raise CRDsError(Exit.USAGE, "give --older-than or --max-size: without them no entry is removed")
        gone = open_cache().prune(older_than=age, max_bytes=size, keep=keep, dry_run=dry_run)
        show(output, list(map(_format_line, gone)) or ["nothing to remove"], [_build_document(one) for one in gone])


def remove(entry: _EntryArgument) -> None:
    """Remove an entry; exits 10 if there is none."""
    with exit_on_error():
        if not open_cache().remove(_parse_key(entry)):
            raise CRDsError(Exit.NOT_CACHED, f"{entry} is not in the cache")


cache = Group(
    "List and remove the entries of the cache.",
    {
        "ls": list_entries,
        "prune": prune,
        "rm": remove,
    },
)
