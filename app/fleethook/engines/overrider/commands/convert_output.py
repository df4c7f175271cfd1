"""The output of ``fleethook convert``: converted objects, the report, and the differences between workloads."""

from collections.abc import Iterator, Sequence
from typing import Final

from fleethook.cli.output.findings_output import ObjectRow, describe_object
from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import Styled, concatenate, styled, write, write_document, write_error, write_styled
from fleethook.cli.output.yaml_output import NoAliasDumper, yaml_text
from fleethook.cluster.manifests.yaml_reader import Document, FieldLines
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.convert.conversion import Converted
from fleethook.engines.overrider.convert.remarks import Remark
from fleethook.engines.overrider.subject.unreached_workloads import Orphan
from fleethook.model.json import JSON

_MAX_POOLS: Final = 5  # that a line of the report names


class Row(ObjectRow, frozen=True):
    """One line of the report, as ``--output json`` prints it. Errors are losses; notes name the new form of an entry.

    Attributes:
        field: Path of the field in the object, ``""`` for the object itself.
        pools: Node pools concerned, empty for all.
        path: JSON pointer of the difference in the workloads, ``""`` if there is none.
        text: The message.
        place: ``FILE:LINE``, ``""`` for an object of a cluster.
    """

    field: str
    pools: tuple[str, ...]
    path: str
    text: str
    place: str


class Places:
    """Files and lines of objects."""

    def __init__(self, documents: Sequence[Document], keys: Sequence[ObjectKey]) -> None:
        """Prepare.

        Args:
            documents: Objects of files.
            keys: The key of each document, in the same order.
        """
        self._documents = dict(zip(keys, documents, strict=True))
        self._lines = FieldLines()

    def find(self, key: ObjectKey, field: str) -> str:
        """Return ``FILE:LINE`` of a field, ``""`` for an object of a cluster."""
        document = self._documents.get(key)
        return "" if document is None else f"{document.source}:{self._lines.line(document, field)}"


def make_row(remark: Remark, places: Places) -> Row:
    """Return the row of a remark."""
    key = remark.key
    place = places.find(key, remark.field)
    return Row(
        remark.level,
        remark.code,
        key.cluster,
        key.group_kind.kind,
        key.namespace,
        key.name,
        remark.field,
        remark.pools,
        remark.path,
        remark.text,
        place,
    )


def make_orphan_row(orphan: Orphan) -> Row:
    """Return the row of a workload without a subject."""
    key = orphan.key
    rendered = ", and it still has the changes of an overrider" if orphan.rendered else ""
    text = f"{orphan.reason}{rendered}; delete it when the workload that replaces it is ready"
    return Row(
        "warning",
        "orphan",
        key.cluster,
        key.group_kind.kind,
        key.namespace,
        key.name,
        "",
        (orphan.pool,),
        "",
        text,
        "",
    )


def print_report(rows: Sequence[Row]) -> None:
    """Write the report to standard error, one line each."""
    for row in rows:
        write_error(f"{row.place or 'cluster'}: {row.level}: {_describe(row)}")


def _describe(row: Row) -> str:
    field = f"{row.field}: " if row.field else ""
    return f"{describe_object(row)}: {field}{_list_pools(row.pools)}{row.text}"


def _list_pools(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_POOLS} more" if len(names) > _MAX_POOLS else ""
    return f"node pool{'s' if len(names) > 1 else ''} {', '.join(names[:_MAX_POOLS])}{more}: "


def _dump(value: JSON) -> str:
    """Return a value as YAML."""
    return yaml_text(value, dumper=NoAliasDumper)


def print_yaml(converted: Sequence[Converted]) -> None:
    """Write the converted objects to standard output, one document each."""
    for one in converted:
        if one.document is not None:
            write("---", f"# Converted from {_title(one)}.")
            write_document(_dump(one.document))


def print_json(converted: Sequence[Converted], rows: Sequence[Row]) -> None:
    """Write the converted objects and the report to standard output, as one JSON object."""
    objects = [one.document for one in converted if one.document is not None]
    write_json({"objects": objects, "report": rows})


def print_diff(converted: Sequence[Converted]) -> None:
    """Write the differences between the workloads before and after to standard output, by node pool."""
    for one in converted:
        for pool in one.pools:
            write_styled(styled(f"{_title(one)}, node pool {pool}", "bold"))
            remarks = [remark for remark in one.remarks if remark.path and pool in (remark.pools or one.pools)]
            if not remarks:
                write_styled(styled("  as before", "dim"))
            for line in _format_differences(remarks):
                write_styled(line)


def _format_differences(remarks: Sequence[Remark]) -> Iterator[Styled]:
    for remark in remarks:
        yield concatenate(styled(f"  {remark.path}"), styled(f"  # {remark.field}: {remark.text}", "cyan"))
        for sign, style, value in (("-", "red", remark.before), ("+", "green", remark.after)):
            if value is not None:
                text = _dump(value).removesuffix("...\n").rstrip("\n")
                yield styled("\n".join(f"    {sign} {line}" for line in text.split("\n")), style, keep="\n")


def _title(one: Converted) -> str:
    name = f"{one.key.namespace}/{one.key.name}" if one.key.namespace else one.key.name
    return f"{one.key.group_kind.kind} {name}{f' of {one.key.cluster}' if one.key.cluster else ''}"
