"""Rules for the entries of an overrider: node pools, items and patches. Tweaks of a YurtAppSet v1beta1 share some."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.entry_selection import (
    EVERY_POOL,
    EXCLUDE,
    PoolSelector,
    sample_names,
    selected_names,
)
from fleethook.engines.overrider.entries.patch_paths_and_protected_fields import (
    find_path_problems,
    protected_pointer,
    suggest_pointer,
)
from fleethook.engines.overrider.entries.steps_and_limits import ITEMS, LEAVABLE_FIELD, LIMITS, MAX_VALUES
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.image_and_placeholder_rules import (
    OF_OVERRIDERS,
    OF_TWEAKS,
    OUTSIDE_TWEAKS,
    PoolToken,
    check_image,
    check_patched_images,
    misspelled_tokens,
)
from fleethook.model.formats.names_and_labels import validate_selector
from fleethook.model.json import JSON, as_list, count_values
from fleethook.patch import parse_pointer

SELECTOR: Final = ("matchLabels", "matchExpressions")


class SchemaMistakes(NamedTuple):
    """The fields of an overrider that violate the schema. Rules for entries need values of the right types."""

    places: frozenset[str]
    """The fields with a violation, and the fields around them."""
    with_unknown: frozenset[str]
    """The fields that have unknown members."""


def check_entry(field: str, entry: Mapping[str, JSON], mistakes: SchemaMistakes) -> Iterator[Finding]:
    """Yield the mistakes in an entry: in its selection of node pools, its items and its patches.

    Args:
        field: Its path.
        entry: The entry.
        mistakes: The fields that violate the schema. They have no further findings.
    """
    pools, selector, findings = entry.get("pools"), entry.get("poolSelector"), list[Finding]()
    if f"{field}.pools" not in mistakes.places:
        by_labels = selector is not None or field in mistakes.with_unknown
        findings += _check_pools(f"{field}.pools", pools, by_labels=by_labels)
    if selector is not None and f"{field}.poolSelector" not in mistakes.places:
        findings += _check_selector(f"{field}.poolSelector", selector, pools)
    yield from findings
    samples = sample_names(selected_names(pools))
    for member, check in (("items", check_item), ("patches", check_patch)):
        elements = as_list(entry.get(member))
        if len(elements) > LIMITS.operations:
            text = f"has {len(elements)} {member}, and the limit is {LIMITS.operations}: combine them"
            yield Finding("invalid", f"{field}.{member}", text)
            continue
        for number, element in enumerate(elements):
            place = f"{field}.{member}[{number}]"
            if count_values(element, limit=MAX_VALUES) > MAX_VALUES:
                text = f"has more than {MAX_VALUES} values, which is the limit for one of the {member}: split it"
                yield Finding("invalid", place, text)
            elif place not in mistakes.places:
                yield from check(element, place, pools=samples)
    if not findings and field not in mistakes.places and not entry.get("items") and not entry.get("patches"):
        yield Finding("no-effect", field, "changes nothing: it has neither items nor patches")


def _check_pools(field: str, pools: Sequence[str] | None, *, by_labels: bool) -> Iterator[Finding]:
    if pools is None:
        if not by_labels:
            text = "names no node pool; write '*' for all of them, or poolSelector for some labels"
            yield Finding("required", field, text)
    elif EXCLUDE in pools:
        yield Finding("invalid", f"{field}[{pools.index(EXCLUDE)}]", "must be a pool's name, -name or '*'")
    elif not by_labels and (problem := _selects_nothing(pools)) is not None:
        yield Finding("unused-entry", field, problem)


def _check_selector(field: str, selector: JSON, pools: JSON) -> Iterator[Finding]:
    """Yield the mistakes of a ``poolSelector``."""
    mistakes = [*check_selector(field, selector)]
    yield from mistakes
    if is_empty_selector(selector) and not mistakes:
        text = "is empty, and an empty selector would select every node pool: write pools: ['*'] for that"
        yield Finding("required", field, text)
    elif isinstance(pools, list) and EVERY_POOL in pools:
        yield Finding("no-effect", field, "changes nothing, because pools has '*': remove one of them")


def check_selector(field: str, selector: Mapping[str, JSON]) -> Iterator[Finding]:
    """Yield the mistakes in a label selector whose members have the right types."""
    if count_values(selector, limit=MAX_VALUES) > MAX_VALUES:
        yield Finding("invalid", field, f"has more than {MAX_VALUES} values, which is the limit: split it")
        return
    for pointer, problem in validate_selector(selector, ""):
        path = "".join(f"[{token}]" if token.isdecimal() else f".{token}" for token in pointer.split("/")[1:])
        yield Finding("invalid", f"{field}{path}", problem)


def is_empty_selector(selector: JSON) -> bool:
    """Return whether a label selector has no condition, so that it selects everything."""
    return isinstance(selector, dict) and not any(selector.get(name) for name in SELECTOR)


def _selects_nothing(names: Sequence[JSON]) -> str | None:
    if not names:
        return "is empty, so the entry applies to no node pool"
    if not selected_names(names) and EVERY_POOL not in names:
        return "only excludes node pools, so the entry applies to none; add '*' for all others"
    if EVERY_POOL in names or any(map(PoolSelector({"pools": names}).selects, selected_names(names))):
        return None
    return "excludes every node pool that it names, so the entry applies to none"


_NO_MEMBER_MESSAGE: Final = (
    f"must have exactly one member of {', '.join(ITEMS)}, and has none. If you wrote one, the installed "
    "CustomResourceDefinition does not know it and removed it (upstream's knows image and replicas only): install "
    "fleethook's"
)


def check_item(item: Mapping[str, JSON], field: str, *, pools: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about an item that has the form of the schema.

    Args:
        item: The item as written.
        field: Its path.
        pools: The node pools that the entry names. Each replaces ``{{nodepool}}`` in images for the check.
    """
    given = [member for member in ITEMS if item.get(member) is not None]
    if len(given) > 1:
        text = f"must have exactly one member, not {' and '.join(given)}: make an item of each"
        yield Finding("invalid", field, text)
    elif not given:
        yield Finding("required", field, _NO_MEMBER_MESSAGE)
    if item.get("leave") == []:
        text = f"is empty, so the item leaves nothing: write [{LEAVABLE_FIELD}]"
        yield Finding("no-effect", f"{field}.leave", text)
    if (image := item.get("image")) is not None:
        yield from check_image(image["imageClaim"], f"{field}.image.imageClaim", pools=pools)


_MAX_REPLICAS: Final = 2**31 - 1


def replicas_problem(value: JSON) -> str | None:
    """Return the problem of a number of replicas, None if it is valid."""
    if type(value) is int and 0 <= value <= _MAX_REPLICAS:
        return None
    return f"must be a whole number from 0 to {_MAX_REPLICAS}, not {value!r}"


class PatchForm(NamedTuple):
    """The differences between the patches of overriders and those of tweaks."""

    in_values: PoolToken
    in_paths: PoolToken
    is_extended: bool
    """Whether fleethook applies the patch: paths select elements by name, and some are protected."""


ENTRY_PATCH: Final = PatchForm(OF_OVERRIDERS, OF_OVERRIDERS, is_extended=True)
TWEAK_PATCH: Final = PatchForm(OF_TWEAKS, OUTSIDE_TWEAKS, is_extended=False)
"""OpenYurt applies the patches of tweaks as RFC 6902 has them (workloadmanager/tweaks.go, v1.7.0)."""


def check_patch(
    patch: Mapping[str, JSON], field: str, *, pools: Sequence[str], form: PatchForm = ENTRY_PATCH
) -> Iterator[Finding]:
    """Yield the mistakes in a patch that has the form of the schema.

    Args:
        patch: The patch.
        field: Its path.
        pools: The node pools that the entry or tweak names, for images that contain the token.
        form: The form of the patch.
    """
    yield from _check_value(f"{field}.value", patch, form)
    yield from _check_path(f"{field}.path", patch, form)
    yield from check_patched_images(f"{field}.value", patch, pools, form.in_values)
    for member, token in (("path", form.in_paths), ("value", form.in_values)):
        yield from misspelled_tokens(patch.get(member), f"{field}.{member}", token)


def _check_value(field: str, patch: Mapping[str, JSON], form: PatchForm) -> Iterator[Finding]:
    operation = patch["operation"]
    # Clients built on Go types send an absent value as null, so null counts as absent in a remove.
    if operation == "remove" and patch.get("value") is not None and form.is_extended:
        yield Finding("forbidden", field, "must be empty when operation is remove")
    elif operation in ("add", "replace") and "value" not in patch:
        yield Finding("required", field, f"is required when operation is {operation}; null unsets")


def _check_path(field: str, patch: Mapping[str, JSON], form: PatchForm) -> Iterator[Finding]:
    path = patch["path"]
    try:
        tokens = parse_pointer(path)
    except ValueError as error:
        yield Finding("invalid", field, f"{error}; {suggest_pointer(path)}")
        return
    problems = find_path_problems(path, tokens, patch["operation"], is_extended=form.is_extended)
    yield from (Finding("invalid", field, problem) for problem in problems)
    if form.is_extended and (protected := protected_pointer(tokens, patch.get("value"))) is not None:
        yield Finding("forbidden", field, f"{path} would change {protected}, which overrides may not do")
