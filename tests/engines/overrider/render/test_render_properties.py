"""Properties of `fleethook render` for any subject and overrider.

It never crashes, its changes are all the differences between template and result, and each change names an entry that
made it. Places are compared by the names of list elements, never by their index.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import assume, event, given, reject, settings

from fleethook.engines.overrider.entries.entry_selection import EntrySelection, PoolSelector
from fleethook.engines.overrider.entries.steps_and_limits import RenderError, compile_steps, run_traced
from fleethook.engines.overrider.plan.plan_and_digest import kind_of
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.pool_previews_and_changes import (
    FieldChange,
    PoolWorkload,
    Preview,
    cells,
    count_changes,
    preview,
)
from fleethook.engines.overrider.rules.schema_and_binding_rules import check_overrider
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.patch import format_pointer, parse_pointer
from fleethook.workload_schema import decode_workload
from tests.builders import compile_bare, store_of
from tests.engines.overrider.worlds import OVERRIDERS, SUBJECTS, can_exist
from tests.hypothesis_profiles import examples

Path = tuple[str, ...]
# The lists whose elements have names, and the members that make the name (k8s.io/api: listType=map).
KEYS: Final[dict[str, dict[str, Any]]] = {
    "containers": {"name": None},
    "initContainers": {"name": None},
    "env": {"name": None},
    "volumes": {"name": None},
    "volumeMounts": {"mountPath": None},
    "ports": {"containerPort": None, "protocol": "TCP"},
    "tolerations": {"key": "", "operator": "Equal", "value": "", "effect": ""},
    "ownerReferences": {"uid": None},
}

# Places by name.


def identity(member: str, element: Any) -> str | None:
    """`[name=app]`, None if the elements of the list have no names."""
    if member not in KEYS or not isinstance(element, dict):
        return None
    return "[" + ",".join(f"{key}={element.get(key, default)}" for key, default in KEYS[member].items()) + "]"


def flat(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every scalar, empty object, empty list and unnamed list, by its path with names."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from flat(inner, (*path, name))
    elif isinstance(value, list) and value and (names := [identity(path[-1], one) for one in value])[0] is not None:
        assert len(set(names)) == len(names), f"{path} has two elements of one name: {names}"
        for name, inner in zip(names, value, strict=True):
            yield from flat(inner, (*path, str(name)))
    else:
        yield path, value


def place_of(change: FieldChange, bare: Any, result: Any) -> Path:
    """The path of a change with names; indexes are those of the result, or of the template for removed elements."""
    named: list[str] = []
    before, after = bare, result
    for token in parse_pointer(change.path):
        if not isinstance(before, list) and not isinstance(after, list):
            named.append(token)
            before, after = (one.get(token) if isinstance(one, dict) else None for one in (before, after))
            continue
        at_end = len(named) == len(parse_pointer(change.path)) - 1
        elements = before if change.after is None and at_end else after
        element = elements[int(token)]
        name = identity(named[-1], element)
        assert name is not None
        before, after = (element_of(one, named[-1], name) for one in (before, after))
        named.append(name)
    return tuple(named)


def element_of(elements: Any, member: str, name: str) -> Any:
    return next((one for one in elements or () if identity(member, one) == name), None)


def at(document: Any, place: Path) -> Any:
    for number, token in enumerate(place):
        if isinstance(document, list):
            document = element_of(document, place[number - 1], token)
        else:
            document = document.get(token) if isinstance(document, dict) else None
    return document


def compact(value: Any, member: str = "") -> Any:
    """The value without empty lists and maps, which mean the same as absent ones, and with sorted named elements."""
    if isinstance(value, dict):
        kept = {name: compact(inner, name) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner not in ([], {}) or name == "emptyDir"}
    if not isinstance(value, list):
        return value
    elements = [compact(inner) for inner in value]
    return sorted(elements, key=lambda one: str(identity(member, one))) if member in KEYS else elements


def target(path: str, document: Any) -> Path:
    """The named place that the path of a patch selects, without the last token if that is new."""
    named: list[str] = []
    for token in parse_pointer(path):
        if not isinstance(document, list):
            named.append(token)
            document = document.get(token) if isinstance(document, dict) else None
            continue
        wanted = dict(pair.split("=") for pair in token[1:-1].split(",")) if token.startswith("[") else {}
        found = [
            one
            for number, one in enumerate(document)
            if (wanted and all(str(one.get(key)) == text for key, text in wanted.items())) or str(number) == token
        ]
        if not found:
            break
        document = found[0]
        named.append(identity(named[-1], document) or token)
    return tuple(named)


# The properties.


def stored_template(cell: PoolWorkload, plans: PlanCache, store: Any) -> Any:
    """The stored form of the workload of the template without an overrider."""
    group_kind, document, cluster = cell.subject
    return plans.plan(
        group_kind, document, None, kind=cell.kind, pool=cell.pool, cluster=cluster, store=store
    ).full.create.bare


def written_template(cell: PoolWorkload) -> Any:
    """The workload of the template without an overrider, in the written form to which entries apply."""
    group_kind, document, _ = cell.subject
    return compile_bare(group_kind, document, kind=cell.kind, pool=cell.pool).written


def check_changes(shown: Preview, bare: Any) -> None:
    """Check that the changes are exactly the differences between template and result."""
    places = [place_of(change, bare, shown.workload) for change in shown.changes]
    for change, place in zip(shown.changes, places, strict=True):
        assert at(bare, place) == change.before, (change, place)
        made = at(shown.workload, place)
        assert made == change.after, (change, place)
        assert change.before != change.after
    own = ("metadata", "annotations")
    before, after = (
        {(place, repr(value)) for place, value in flat(compact(document))} for document in (bare, shown.workload)
    )
    for place, value in before ^ after:
        if place[:2] == own and len(place) == 3 and place[2].startswith("fleethook.io/"):
            continue
        # A container with members is no leaf, so an object that becomes empty is a difference of its own.
        shared = [one for one in places if place[: len(one)] == one or one[: len(place)] == place]
        assert shared, f"{format_pointer(place)} ({value}) differs and no change shows it"
    for place in reordered(bare, shown.workload):
        assert place in places, f"{format_pointer(place)} has another order and no change shows it"


def reordered(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    """The lists whose named elements have another order."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() & after.keys():
            yield from reordered(before[name], after[name], (*path, name))
    elif isinstance(before, list) and isinstance(after, list):
        former, now = ([identity(path[-1], one) for one in elements] for elements in (before, after))
        if None in (*former, *now):
            return
        if [one for one in former if one in now] != [one for one in now if one in former]:
            yield path
        for name in {*former} & {*now}:
            inner = (element_of(elements, path[-1], str(name)) for elements in (before, after))
            yield from reordered(*inner, (*path, str(name)))


def check_source(change: FieldChange, shown: Preview, cell: PoolWorkload, bare: Any, rule: dict[str, Any]) -> None:
    """Check that the entry exists, applies to the node pool, and is the last one to write to the place."""
    found = re.fullmatch(r"entries\[(\d+)\]\.(items|patches)\[(\d+)\]", change.source)
    assert found, change
    number, member, position = int(found[1]), found[2], int(found[3])
    entry = rule["entries"][number]
    assert PoolSelector(entry).selects(shown.pool)
    assert position < len(entry[member])
    place = place_of(change, bare, shown.workload)
    states = []
    for last in (position, position + 1):
        kept = {**entry, member: entry[member][:last]}
        if member == "items":
            kept["patches"] = []
        entries = [*rule["entries"][:number], kept]
        steps = compile_steps(entries, shown.pool, applying=EntrySelection(entries).applying(shown.pool, None))
        states.append(run_traced(written_template(cell), steps).rendered)
    before, after = (at(state, place) for state in states)
    message = f"{change.source} does not touch {change.path}"
    assert before != after or writes(entry[member][position], place, states[0], shown.pool), message
    if isinstance(change.before, list) and isinstance(change.after, list) and place[-1] in KEYS:
        assert not [
            one for one in reordered(decode_workload(states[1], kind_of(states[1])), shown.workload) if one == place
        ], f"{change} again"
        return
    assert part(decode_workload(states[1], kind_of(states[1])), place) == part(shown.workload, place), (
        f"{change} changes again"
    )


def part(document: Any, place: Path) -> Any:
    """The member at a place in compact form; an absent one equals an empty one."""
    value = at(document, place)
    return {} if value is None else compact({place[-1]: value})


def writes(step: dict[str, Any], place: Path, document: Any, pool: str) -> bool:
    """Whether an item or patch writes to a place, even if it writes the present value."""
    if "image" in step:
        return f"[name={step['image']['containerName']}]" in place and "image" in place
    path = str(step.get("path", "/spec/replicas" if "replicas" in step else "")).replace("{{nodepool}}", pool)
    written = target(path, document)
    return bool(path) and place[: len(written)] == written


@settings(max_examples=examples(150))
@given(SUBJECTS, OVERRIDERS)
def test_render_shows_each_change_and_its_source(subject: dict[str, Any], rule: dict[str, Any]) -> None:
    store = store_of(subject, rule)
    found = check_overrider(rule, cluster="", namespace="default", store=store)
    refused = [one for one in found if one.level == "error"]
    plans = PlanCache()
    failed: list[tuple[PoolWorkload, RenderError]] = []
    for cell in cells(store, [""]):
        try:
            bare = stored_template(cell, plans, store)
        except SubjectError:
            reject()
        assume(can_exist(bare))
        try:
            shown = preview(cell, store, plans)
        except RenderError as error:
            failed.append((cell, error))
            with pytest.raises(RenderError):
                count_changes(cell, store, plans)
            continue
        check_changes(shown, bare)
        assert count_changes(cell, store, plans) == len(shown.changes)
        for change in shown.changes:
            check_source(change, shown, cell, bare, rule)
        event("changed" if shown.changes else "as the template")
    for cell, failure in failed:
        assert any(one.field == failure.field and cell.pool in one.message for one in refused)
    assert bool(refused) == bool(failed), "admission and render disagree"
    event("refused" if refused else "admitted")
