"""Asks rules about objects that exist, each as a CREATE, and returns the outcomes of ``fleethook rules apply``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.admission.declaration import Declaration
from fleethook.admission.matching import choose_resource, find_mismatch, find_rule_mismatch
from fleethook.admission.pod_templates import list_targets
from fleethook.admission.rule import (
    Review,
    Rule,
    Surroundings,
    answer_matched,
    answer_unclear,
    build_request,
    show_request,
)
from fleethook.cel.evaluation import EvaluationError
from fleethook.cli.output.text_output import write_error
from fleethook.cli.trials import Outcome, Trial, remove_stored
from fleethook.model.admission import AdmissionRequest, read_cluster
from fleethook.model.formats.labels import NAMESPACE_LABEL
from fleethook.model.gvk import guess_resource, gvk_of
from fleethook.model.json import JSONObject, as_object
from fleethook.patch import apply
from fleethook.workload_schema.defaults import set_defaults
from fleethook.workload_schema.schema_defaults import CustomVersion

Locate = Callable[[str], str]
"""Returns ``FILE:LINE`` of a field of the object, ``""`` for an object of a cluster."""


class Inventory(NamedTuple):
    """The facts besides an object on which the answers about it depend.

    Attributes:
        namespaces: The labels of namespaces by name.
        find_version: Returns the version of a custom resource that an object has, None for a built-in one.
        user: The user of the requests.
        around: The facts that do not depend on the object.
    """

    namespaces: Mapping[str, Mapping[str, str]]
    find_version: Callable[[JSONObject], CustomVersion | None]
    user: JSONObject
    around: Surroundings


class _AskedObject:
    """An object with the changes of the rules that have been asked about it.

    Attributes:
        request: The request that creates it.
        around: The facts besides the request.
    """

    def __init__(self, document: JSONObject, resource: str, inventory: Inventory, *, stored: bool) -> None:
        """Make the request; raises ValueError."""
        self._new = remove_stored(document)
        if stored and "status" in document:  # kube-apiserver shows no status of a new object to validating rules.
            self._new["status"] = {}
        metadata = as_object(document.get("metadata"))
        self._given: Final = {name: metadata[name] for name in _GIVEN if name in metadata}
        self._stored: Final = stored
        self.request = build_request(self._new, None, operation="CREATE", resource=resource, user=inventory.user)
        self.around: Final = inventory.around._replace(
            namespace_labels=inventory.namespaces.get(self.request.namespace, {}),
            version=None if stored else inventory.find_version(document),
        )
        self._shown: Final[dict[bool, AdmissionRequest]] = {}

    def show(self, rule: Rule) -> AdmissionRequest:
        """Return the request as kube-apiserver shows it to a rule."""
        mutates = rule.declaration.mutates
        if mutates not in self._shown:
            if not self._stored:
                made = show_request(self.request, self.around.version, mutates=mutates)
            elif mutates:
                made = self.request
            else:
                metadata = {**as_object(self._new["metadata"]), **self._given}
                made = _replace_object(self.request, {**self._new, "metadata": metadata})
            self._shown[mutates] = made
        return self._shown[mutates]

    def change(self, patch: Sequence[JSONObject]) -> None:
        """Apply the patch of a mutating rule."""
        changed = dict(as_object(apply(self._new if self._stored else self._shown[True].object, patch)))
        self._new = set_defaults(changed) if self._stored else changed
        self.request = _replace_object(self.request, self._new)
        del self._shown[True]


_GIVEN: Final = ("creationTimestamp", "generation", "uid")
"""Members of metadata that kube-apiserver shows to validating rules of a CREATE."""


def _replace_object(request: AdmissionRequest, document: JSONObject) -> AdmissionRequest:
    return msgspec.structs.replace(request, object_raw=msgspec.Raw(msgspec.json.encode(document)))


class RuleTrials:
    """Asks rules about objects.

    Attributes:
        asked: The names of rules that have been asked about an object.
    """

    def __init__(self, rules: Sequence[Rule], inventory: Inventory) -> None:
        """Prepare; ``rules`` are in the order of kube-apiserver, mutating ones first."""
        self._inventory: Final = inventory
        self.asked: Final[set[str]] = set()
        self._noted: Final[set[tuple[str, str]]] = set()
        # Many rules get the same requests, which takes longer to find out than a usual rule takes.
        groups: dict[str, list[Rule]] = {}
        for rule in rules:
            groups.setdefault(_describe_sight(rule.declaration), []).append(rule)
        self._groups: Final = [*groups.values()]

    def try_object(self, document: JSONObject, *, resource: str, stored: bool, locate: Locate) -> Iterator[Trial]:
        """Yield the outcome of each rule that sees an object, and print a note if one cannot be examined.

        A rule gets the object with the changes of the mutating rules before it, as from kube-apiserver. A refusal does
        not end the request, so that it does not hide another one.

        Args:
            document: The object.
            resource: The plural of its kind.
            stored: Whether it comes from a cluster, so that it has all defaults.
            locate: Returns the place of a field.

        Raises:
            ValueError: kube-apiserver never sends such an object.
        """
        asked = _AskedObject(document, resource, self._inventory, stored=stored)
        for group in self._groups:
            first = group[0].declaration
            if find_rule_mismatch(first, asked.request):
                self._note_version(document, group, locate)
                continue
            request = asked.show(group[0])
            self._note_labels(group, request.namespace)
            answers: Sequence[Review | None] = [None] * len(group)
            try:
                if not find_mismatch(first, request, asked.around.namespace_labels):
                    answers = answer_matched(group, request, asked.around, is_test=False)
            except EvaluationError as error:
                answers = [answer_unclear(one, request, error) for one in group]
            trial = _describe_object(request)
            for rule, answer in zip(group, answers, strict=True):
                yield self._describe(trial, rule, answer, locate)
            if first.mutates and answers[0] and answers[0].patch:
                asked.change(answers[0].patch)

    def _describe(self, trial: Trial, rule: Rule, answer: Review | None, locate: Locate) -> Trial:
        """Return the outcome of a rule, None for one that is not asked."""
        members = {**trial.members, "rule": rule.name, "ruleAt": f"{rule.file}:{rule.line}"}
        trial = trial._replace(asked=f"{rule.name} ({rule.place})", members=members)
        if answer is None:
            return trial
        self.asked.add(rule.name)
        failure = next((one for one in (answer.message, *answer.warnings) if one.startswith(rule.failure)), "")
        warnings = tuple(one for one in (*answer.warnings, *answer.mistakes) if one != failure)
        if answer.allowed and not failure and not answer.patch:
            return trial._replace(outcome="allowed", warnings=warnings)
        outcome: Outcome = "failed" if failure else "changed" if answer.allowed else "refused"
        field = answer.causes[0].field if answer.causes else ""
        return trial._replace(
            outcome=outcome,
            message=failure or answer.message,
            field=field,
            place=locate(field),
            patch=tuple(answer.patch) if outcome == "changed" else (),
            after=answer.object,
            warnings=warnings,
        )

    def _note_version(self, document: JSONObject, group: Sequence[Rule], locate: Locate) -> None:
        """Tell that an object has another version than rules want: kube-apiserver would convert it."""
        api_group, version, kind = gvk_of(document)
        for target in list_targets(group[0].declaration):
            is_kind = choose_resource(target, document, "") and target.group == api_group and target.version != version
            if is_kind and "CREATE" in target.operations and not target.subresource:
                for rule in group:
                    text = (
                        f"{locate('') or kind}: {rule.name} ({rule.place}) decides about {target.version} of {kind}; "
                        f"kube-apiserver would convert {version}: write the object in {target.version} to examine it"
                    )
                    self._note((rule.name, f"{kind} {version}"), text)

    def _note_labels(self, group: Sequence[Rule], namespace: str) -> None:
        """Tell that the labels of a namespace are unknown, if they decide."""
        if namespace and namespace not in self._inventory.namespaces and selects_by_labels(group[0]):
            for rule in group:
                text = (
                    f"{rule.place}: {rule.name} selects namespaces by labels, and the Namespace {namespace} is not "
                    "among the objects, so it has only the label of its name"
                )
                self._note((rule.name, ""), text)

    def _note(self, key: tuple[str, str], text: str) -> None:
        if key not in self._noted:
            self._noted.add(key)
            write_error(f"note: {text}")


def _describe_object(request: AdmissionRequest) -> Trial:
    kind, name = request.kind.kind, request.name
    if not name:
        name = str(as_object(as_object(request.object).get("metadata")).get("generateName") or "")
    namespace, cluster = "" if kind == "Namespace" else request.namespace, read_cluster(request)
    members: JSONObject = {"kind": kind, "namespace": namespace, "name": name} | (
        {"cluster": cluster} if cluster else {}
    )
    subject = f"{kind} {namespace}{'/' if namespace else ''}{name}{f' in {cluster}' if cluster else ''}"
    return Trial("", subject, members, "not sent", before=request.object)


def selects_by_labels(rule: Rule) -> bool:
    """Return whether the labels of namespaces decide, and not their names alone."""
    selector = rule.declaration.namespace_selector
    keys = {expression["key"] for expression in selector.get("matchExpressions") or ()} | {
        *(selector.get("matchLabels") or ())
    }
    return bool(keys - {NAMESPACE_LABEL})


def find_plural(rules: Sequence[Rule], document: JSONObject) -> str:
    """Return the plural of an object: that of a rule about its kind, or a guess."""
    targets = (target for rule in rules for target in list_targets(rule.declaration) if target.kind)
    named = (choose_resource(target, document, "") for target in targets)
    return next(filter(None, named), "") or guess_resource(str(document["kind"]))


def _describe_sight(declared: Declaration) -> str:
    """Return the parts of a declaration that say which objects a rule gets; those of a mutating rule are its own."""
    if declared.mutates:
        return declared.name
    conditions = {name: one.expression for name, one in declared.conditions.items()}
    irrelevant = declared._replace(
        name="", failure_policy="Fail", side_effects="None", timeout=0, order=0, follows=(), inline=False,
        existing="admit", conditions={},
    )  # fmt: skip
    return f"{irrelevant} {conditions}"
