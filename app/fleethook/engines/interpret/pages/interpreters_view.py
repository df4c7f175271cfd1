"""The matrix of kinds and operations, with the layer that answers each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fleethook.cluster.store import Store, StoreView
from fleethook.console.rendering import take_page
from fleethook.engines.interpret.chain import Chain
from fleethook.engines.interpret.hooks.hook_configuration import CONFIGURATIONS, parse_hooks
from fleethook.engines.interpret.hooks.webhook_layer import DEFINITIONS_BY_KIND, WebhookLayer
from fleethook.engines.interpret.layers import assemble_chain, make_conventions_layer
from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.interpret.python_interpreter import Interpreter
from fleethook.interpret.question import Question
from fleethook.model.gvk import DEFINITION, GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, ConventionsMode, Operation
from fleethook.outbound.client import HookClient

LAYERS: Final = ("lua", "webhook", "python", "bundle", "native", "conventions", "annotation", "label")
"""The layers in the order in which they are asked."""
NONE: Final = "none"
"""The filter for cells that no layer answers."""
OPERATIONS: Final = tuple(Operation)
PAGE_ROWS: Final = 100

_EVERY: Final = "*"
INTERPRETED: Final = (*CONFIGURATIONS, CUSTOMIZATION, DEFINITION, CONFIG_MAP)
"""The kinds that configure interpreters."""


@dataclass(frozen=True)
class Cell:
    """The layer that answers an operation on a kind."""

    operation: Operation
    layer: str
    """``""`` if no layer answers."""
    interpreter: str
    """The customization, webhook, function or bundled script that answers."""
    later: tuple[str, ...]
    """The layers that answer only without this one."""
    note: str = ""
    """The difference for a cluster-scoped object, if the scope of the kind is unknown."""


@dataclass(frozen=True)
class KindRow:
    """A kind, with a cell for each operation that the filter shows."""

    kind: GroupVersionKind
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class MatrixFilter:
    """The parameters of the matrix.

    Attributes:
        text: Part of apiVersion and kind, ignoring case; ``""`` for all.
        layer: One of `LAYERS`, or `NONE`, that a cell must have; ``""`` for all.
        operation: The only operation to show; ``""`` for all.
        page: The page, from 1.
    """

    text: str = ""
    layer: str = ""
    operation: str = ""
    page: int = 1


@dataclass(frozen=True)
class Matrix:
    """The rows of one page, and the numbers of the others."""

    rows: tuple[KindRow, ...]
    operations: tuple[Operation, ...]
    found: int
    """Kinds that match the filter."""
    total: int
    page: int
    pages: int
    refused: tuple[str, ...]
    """Customizations that are invalid and therefore not used."""


@dataclass(frozen=True)
class Interpreters:
    """The chain of a set of objects, and the kinds that it knows."""

    chain: Chain
    kinds: tuple[GroupVersionKind, ...]
    unscoped: frozenset[GroupVersionKind]
    """Kinds without a CustomResourceDefinition."""
    refused: tuple[str, ...]


def build_interpreters(
    documents: Iterable[JSONObject],
    *,
    interpreters: Sequence[Interpreter] = (),
    namespace: str,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
) -> Interpreters:
    """Build the chain of objects. It only finds interpreters: none is called.

    Args:
        documents: Customizations, webhook configurations and CustomResourceDefinitions (`list_documents`).
        interpreters: Interpreters in Python.
        namespace: The namespace of ``karmada-config``.
        bundle: Whether to include the bundle.
        conventions: The operations to answer for kinds that nothing else interprets.
    """
    store = Store([DEFINITIONS_BY_KIND])
    customizations = Customizations(store, namespace=namespace)
    hooks = WebhookLayer(store, HookClient(allow_private=False), observe=_ignore)
    for document in documents:
        store.put(document)
    chain = assemble_chain(
        customizations,
        hooks,
        interpreters,
        Runner(),
        bundle=store if bundle else None,
        observe=_ignore,
        conventions=make_conventions_layer(store, conventions),
    )
    defined = set(_list_defined(store))
    kinds = {kind for kind, _ in chain.answers()} | defined | set(_list_rule_kinds(store))
    return Interpreters(
        chain,
        tuple(sorted(kinds)),
        frozenset(kinds - defined),
        tuple(one.text for one in customizations.refused()),
    )


def list_documents(view: StoreView) -> Iterator[JSONObject]:
    """Yield the objects that configure interpreters, of the plain cluster."""
    for group_kind in INTERPRETED:
        for document in view.each("", group_kind):
            if isinstance(document, dict) and (
                group_kind != CONFIG_MAP or document["metadata"]["name"] == CONFIG_MAP_NAME
            ):
                yield document


def _list_defined(view: StoreView) -> Iterator[GroupVersionKind]:
    """Yield the served kinds of CustomResourceDefinitions."""
    for document in view.each("", DEFINITION):
        spec = as_object(document.get("spec"))
        kind = as_object(spec.get("names")).get("kind")
        for version in map(as_object, _list(spec.get("versions"))):
            if version.get("served") and isinstance(kind, str):
                yield GroupVersionKind(str(spec.get("group") or ""), str(version.get("name") or ""), kind)


def _list_rule_kinds(view: StoreView) -> Iterator[GroupVersionKind]:
    """Yield the kinds that rules of released configurations name without a wildcard."""
    for group_kind in CONFIGURATIONS:
        for configuration in view.each("", group_kind):
            if isinstance(configuration, dict):
                for rule in (rule for hook in parse_hooks(group_kind, configuration) for rule in hook.rules):
                    yield from (
                        GroupVersionKind(group, version, kind)
                        for group in _names(rule.get("apiGroups"))
                        for version in _names(rule.get("apiVersions"))
                        for kind in _names(rule.get("kinds"))
                    )


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _names(value: JSON) -> list[str]:
    return [one for one in _list(value) if isinstance(one, str) and one != _EVERY]


def find_cell(interpreters: Interpreters, kind: GroupVersionKind, operation: Operation) -> Cell:
    """Return the layer that answers an operation on a kind."""
    found = _find_layers(interpreters.chain, kind, operation, namespaced=True)
    note = ""
    if kind in interpreters.unscoped:
        # Without a CustomResourceDefinition, the namespace of an object decides whether rules with a scope match.
        other = _find_layers(interpreters.chain, kind, operation, namespaced=False)
        if other[:1] != found[:1]:
            note = f"for an object without a namespace: {': '.join(other[0]) if other else 'no layer'}"
    if not found:
        return Cell(operation, "", "", (), note)
    layer, interpreter = found[0]
    return Cell(operation, layer, interpreter, tuple(name for name, _ in found[1:]), note)


def _find_layers(
    chain: Chain, kind: GroupVersionKind, operation: Operation, *, namespaced: bool
) -> list[tuple[str, str]]:
    document: JSONObject = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}}
    if namespaced:
        document["metadata"]["namespace"] = "default"
    return [(name, found.hook) for name, found in chain.list_handlers(Question(operation, kind, document))]


def build_matrix(interpreters: Interpreters, wanted: MatrixFilter) -> Matrix:
    """Return a page of the matrix; cells outside the page are computed only for the filter by layer."""
    operations = tuple(one for one in OPERATIONS if wanted.operation in ("", one.value)) or OPERATIONS
    text = wanted.text.casefold()
    kinds: Iterable[GroupVersionKind] = [one for one in interpreters.kinds if text in _describe(one).casefold()]
    if wanted.layer:
        kinds = [row.kind for row in _fill(interpreters, kinds, operations) if _has_layer(row, wanted.layer)]
    matching = list(kinds)
    shown, paging = take_page(matching, wanted.page, PAGE_ROWS)
    rows = tuple(_fill(interpreters, shown, operations))
    return Matrix(
        rows, operations, len(matching), len(interpreters.kinds), paging.page, paging.pages, interpreters.refused
    )


def _fill(
    interpreters: Interpreters, kinds: Iterable[GroupVersionKind], operations: Sequence[Operation]
) -> Iterator[KindRow]:
    for kind in kinds:
        yield KindRow(kind, tuple(find_cell(interpreters, kind, operation) for operation in operations))


def _has_layer(row: KindRow, layer: str) -> bool:
    return any((cell.layer or NONE) == layer for cell in row.cells)


def _describe(kind: GroupVersionKind) -> str:
    return f"{kind.api_version} {kind.kind}"


def _ignore(name: str, outcome: str, seconds: float) -> None:
    """Drop a measurement: the console has no metrics of interpreters."""
    del name, outcome, seconds
