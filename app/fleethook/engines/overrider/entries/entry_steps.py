"""Compiles the entries of an overrider for one pool into steps, and applies them in order.

Later entries win over earlier ones. Inside an entry, items apply before patches. Either all steps apply or none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.entries.items import item_effect
from fleethook.engines.overrider.entries.patch_limits import LIMITS
from fleethook.engines.overrider.entries.patch_paths import END, PathError, find_target, missing_parent, pointer_of
from fleethook.engines.overrider.schema.defaults import explain_missing
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODEPOOL_TOKEN
from fleethook.patch import PatchError, apply, parse_pointer, resolve_pointer

_OPERATIONS: Final = ("add", "remove", "replace")
REPLICAS: Final = "/spec/replicas"


class RenderError(ValueError):
    """An entry that does not fit the workload.

    Attributes:
        field: The path of the step in the overrider, such as ``entries[1].patches[0]``.
        reason: The mistake, with operation and path.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Step(NamedTuple):
    """One item or patch."""

    field: str
    """The path of the step in the overrider, such as ``entries[0].items[1]``."""
    run: Callable[[JSONObject], JSONObject]
    """Returns the workload with the step applied, the same object if nothing changes; raises RenderError."""
    idle: str
    """The remark if the step changes nothing."""
    container: str = ""
    """The container that an item changes, ``""`` for other steps."""
    path: str = ""
    """The path of a patch; ``/spec/replicas`` for an item that sets or leaves replicas."""
    adds: bool = False
    """Whether the step is a patch with the operation ``add``."""
    leaves: bool = False
    """Whether the step leaves the replicas of existing workloads to another owner."""


def compile_steps(
    entries: JSON, pool: str, *, node_pool: JSONObject | None = None, applying: Sequence[int] | None = None
) -> tuple[Step, ...]:
    """Return the steps of the entries that apply to ``pool``, in order.

    The pool's name replaces ``{{nodepool}}`` in items, patch values and patch paths (OpenYurt: in values only).

    Args:
        entries: The overrider's entries.
        pool: The pool's name.
        node_pool: The NodePool, whose labels select entries.
        applying: The numbers of the entries that apply, if the caller has found them.

    Raises:
        RenderError: A patch fits no workload, because of a bad pointer, an unknown operation or a missing value. Or
            more patches apply than `fleethook.engines.overrider.entries.patch_limits` allows.
    """
    listed = entries if isinstance(entries, list) else []
    numbers = EntrySelection(listed).applying(pool, node_pool) if applying is None else applying
    return compile_entries([(f"entries[{number}]", listed[number]) for number in numbers], pool)


def compile_entries(entries: Iterable[tuple[str, Mapping[str, JSON]]], pool: str) -> tuple[Step, ...]:
    """Return the steps of entries for the workload of ``pool``; errors as in `compile_steps`.

    Args:
        entries: The entries that apply, each with its path.
        pool: The pool's name.
    """
    chosen = tuple(entries)
    _check_count(chosen, pool)
    return tuple(step for field, entry in chosen for step in _compile_entry(field, entry, pool))


def _check_count(entries: Iterable[tuple[str, Mapping[str, JSON]]], pool: str) -> None:
    """Raise RenderError if more patches apply to one pool than the limit allows."""
    count = 0
    for field, entry in entries:
        count += len(_read_list(entry, "patches", field))
        if count > LIMITS.operations:
            limit = LIMITS.operations
            raise RenderError(
                f"{field}.patches", f"more than {limit} patches apply to node pool {pool}, which is the limit"
            )


def _read_list(entry: Mapping[str, JSON], member: str, field: str) -> list[JSON]:
    """Return a list of an entry; raises RenderError if the value has another type."""
    value = entry.get(member) or []
    if not isinstance(value, list):
        raise RenderError(f"{field}.{member}", "must be a list")
    return value


def _compile_entry(field: str, entry: Mapping[str, JSON], pool: str) -> Iterator[Step]:
    for number, item in enumerate(_read_list(entry, "items", field)):
        effect = item_effect(as_object(_fill_pool(item, pool)))
        if effect is not None:
            path, leaves = REPLICAS if "replicas" in item or effect.leaves_replicas else "", effect.leaves_replicas
            yield Step(
                f"{field}.items[{number}]", effect.apply, effect.idle, effect.container, path=path, leaves=leaves
            )
    for number, patch in enumerate(_read_list(entry, "patches", field)):
        yield _compile_patch(f"{field}.patches[{number}]", as_object(_fill_pool(patch, pool)))


def _fill_pool(value: JSON, pool: str) -> JSON:
    if isinstance(value, str):
        return value.replace(NODEPOOL_TOKEN, pool)
    if isinstance(value, dict):
        return {_fill_pool(name, pool): _fill_pool(inner, pool) for name, inner in value.items()}
    if isinstance(value, list):
        return [_fill_pool(inner, pool) for inner in value]
    return value


def _compile_patch(field: str, patch: Mapping[str, JSON]) -> Step:
    operation, path = patch.get("operation"), patch.get("path", "")
    problem = _find_problem(operation, path, patch)
    if problem:
        raise RenderError(field, f"{operation} {path}: {problem}")

    def run(workload: JSONObject) -> JSONObject:
        try:
            return _run_patch(workload, str(operation), path, patch.get("value"))
        except PathError as error:
            hint = explain_missing(path) if operation != "add" else ""
            raise RenderError(field, f"{operation} {path}: {error}{hint and f'; {hint}'}") from None
        except PatchError as error:
            raise RenderError(field, f"{operation} {path}: {error.reason}") from None

    return Step(field, run, f"{operation} {path} changes nothing", path=path, adds=operation == "add")


def _find_problem(operation: JSON, path: JSON, patch: Mapping[str, JSON]) -> str:
    if operation not in _OPERATIONS:
        return f"op must be one of {', '.join(_OPERATIONS)}, not {operation!r}"
    if not isinstance(path, str):
        return "path is missing"
    try:
        parse_pointer(path)
    except ValueError as error:
        return str(error)
    return "value is missing" if operation != "remove" and "value" not in patch else ""


def _run_patch(workload: JSONObject, operation: str, path: str, value: JSON) -> JSONObject:
    if operation == "add" and value is not None and (parent := missing_parent(workload, path)) is not None:
        workload = apply(workload, [parent])
    target = find_target(workload, path, add=operation == "add")
    pointer = pointer_of(target)
    if operation == "remove":
        return _apply(workload, "remove", pointer)
    if value is None and not (target.last == END or target.last.isdecimal()):
        # Null means absent in the Kubernetes API.
        return _apply(workload, "remove", pointer) if operation == "replace" or _is_set(workload, pointer) else workload
    if target.filled:
        value = _complete_element(value, target.filled)
        # `add` at an index would insert a second element before the existing one.
        operation = "add" if target.last == END else "replace"
    return _apply(workload, operation, pointer, value)


def _apply(workload: JSONObject, operation: str, pointer: str, value: JSON = None) -> JSONObject:
    patched: JSONObject = apply(workload, [{"op": operation, "path": pointer, "value": value}])
    return patched


def _is_set(workload: JSONObject, pointer: str) -> bool:
    try:
        resolve_pointer(workload, pointer)
    except LookupError:
        return False
    return True


def _complete_element(value: JSON, wanted: Mapping[str, str]) -> JSON:
    """Return the value of an element with the members that its path names."""
    if not isinstance(value, dict):
        raise PathError("the value of an element that the path names must be an object")
    for name, text in wanted.items():
        if name in value and str(value[name]) != text:
            raise PathError(f"the path names an element with {name}={text}, but the value has {name}: {value[name]!r}")
    missing = {name: text for name, text in wanted.items() if name not in value}
    if any(text.isdecimal() for text in missing.values()):
        raise PathError(
            f"the value must have {', '.join(missing)}, because a path does not distinguish numbers from texts"
        )
    return {**missing, **value}


def trace(workload: JSONObject, steps: tuple[Step, ...]) -> Iterator[tuple[Step, JSONObject]]:
    """Yield each step with the workload after it.

    Raises:
        RenderError: A step does not apply.
    """
    for step in steps:
        workload = step.run(workload)
        yield step, workload


def run_steps(workload: JSONObject, steps: tuple[Step, ...]) -> JSONObject:
    """Return ``workload`` with all steps applied; raises RenderError as `trace` does."""
    for _, rendered in trace(workload, steps):
        workload = rendered
    return workload
