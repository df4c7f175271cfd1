"""Asks rules about objects that exist, each as a CREATE, and returns the outcomes of ``fleethook rules apply``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fleethook.admission.mismatch_and_pod_templates import find_rule_mismatch
from fleethook.admission.rule_in_tests import Review, Rule, Surroundings, ask_in_order, build_request
from fleethook.cli.output.text_output import write_error
from fleethook.cli.trial_report import Outcome, Trial, TrialReport, remove_stored
from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError
from fleethook.cluster.registration.python_rule_webhooks import name_resources
from fleethook.model.admission import AdmissionRequest, read_cluster
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL
from fleethook.model.json import JSONObject, as_object
from fleethook.model.rule_matching import EVERY
from fleethook.workload_schema.structural_schema import find_kind_version

Locate = Callable[[str], str]
"""Returns ``FILE:LINE`` of a field of the object, ``""`` for an object of a cluster."""


_GIVEN: Final = ("creationTimestamp", "generation", "uid")


class RuleTrials:
    """Asks rules about objects, and reports the outcomes.

    Attributes:
        rules: The rules in the order of kube-apiserver, mutating ones first.
        errors: The errors about objects that could not be examined.
        around: The facts that do not depend on the object.
        namespaces: The labels of namespaces by name.
        definitions: The CustomResourceDefinitions.
    """

    def __init__(self, rules: Sequence[Rule], report: TrialReport, *, user: JSONObject) -> None:
        """Prepare; ``user`` is that of the requests."""
        self.rules: Final = rules
        self.errors: Final[list[ManifestError]] = []
        self.around = Surroundings()
        self.namespaces: Mapping[str, Mapping[str, str]] = {}
        self.definitions: Sequence[JSONObject] = ()
        self._report: Final = report
        self._user: Final = user
        # The function of a rule that notifies somebody must not do so about each object.
        self._is_dry: Final = any(rule.declaration.side_effects != "None" for rule in rules)
        self._asked: Final[set[str]] = set()
        self._noted: Final[set[tuple[str, str]]] = set()

    def try_object(
        self,
        document: JSONObject,
        *,
        resource: str = "",
        stored: bool = False,
        source: str = "",
        line: int = 0,
        locate: Locate = lambda _: "",
    ) -> None:
        """Report the outcome of each rule that sees an object, and print a note if one cannot be examined.

        A refusal does not end the request, so that it does not hide another one.

        Args:
            document: The object.
            resource: The plural of its kind, if it is known.
            stored: Whether it comes from a cluster, so that it has all defaults.
            source: The file, or the resource of the cluster.
            line: The line in the file.
            locate: Returns the place of a field.
        """
        try:
            for trial in self._try(document, resource, stored=stored, locate=locate):
                self._report.add(trial)
        except (ValueError, TypeError) as error:  # kube-apiserver never sends such an object.
            self.errors.append(ManifestError(source, line, f"cannot be given to rules: {error}"))

    def note_unasked(self) -> None:
        """Tell which rules have not been asked."""
        for rule in self.rules:
            if rule.name not in self._asked:
                declared = rule.declaration
                requests = f"{', '.join(declared.operations)} of {', '.join(name_resources(declared))}"
                write_error(f"note: {rule.place}: no object is given to {rule.name}, which gets {requests}")

    def _try(self, document: JSONObject, resource: str, *, stored: bool, locate: Locate) -> Iterator[Trial]:
        new = document
        if stored:
            # kube-apiserver shows no status of a new object, and these metadata to validating rules.
            new = remove_stored(document)
            given = {name: one for name, one in document["metadata"].items() if name in _GIVEN}
            new = {**new, "metadata": {**new["metadata"], **given}, **({"status": {}} if "status" in document else {})}
        request = build_request(
            new, rules=self.rules, operation="CREATE", resource=resource, user=self._user, dry_run=self._is_dry
        )
        around = self.around._replace(
            namespace_labels=self.namespaces.get(request.namespace, {}),
            version=find_kind_version(self.definitions, document),
        )
        trial = _describe_object(request)
        seen = [rule for rule in self.rules if not find_rule_mismatch(rule.declaration, request)]
        for rule in self.rules:
            if rule in seen:
                self._note_labels(rule, request.namespace)
            else:
                self._note_version(rule, request, locate)
        for rule, shown, review in ask_in_order(seen, request, around, has_defaults=stored):
            yield self._describe(trial._replace(before=shown.object), rule, review, locate)

    def _describe(self, trial: Trial, rule: Rule, answer: Review, locate: Locate) -> Trial:
        """Return the outcome of a rule."""
        members = {**trial.members, "rule": rule.name, "ruleAt": f"{rule.file}:{rule.line}"}
        trial = trial._replace(asked=f"{rule.name} ({rule.place})", members=members)
        if not answer.matched:
            return trial
        self._asked.add(rule.name)
        failure = next((one for one in (answer.message, *answer.warnings) if one.startswith(rule.failure)), "")
        told = (failure, answer.message)
        warnings = tuple(one for one in dict.fromkeys((*answer.warnings, *answer.mistakes)) if one not in told)
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

    def _note_version(self, rule: Rule, request: AdmissionRequest, locate: Locate) -> None:
        """Tell that an object has another version than a rule wants: kube-apiserver would convert it."""
        wanted, version, kind = rule.declaration.version, request.kind.version, request.kind.kind
        if not find_rule_mismatch(rule.declaration._replace(version=EVERY), request):
            text = (
                f"{locate('') or kind}: {rule.name} ({rule.place}) decides about {wanted} of {kind}; "
                f"kube-apiserver would convert {version}: write the object in {wanted} to examine it"
            )
            self._note((rule.name, f"{kind} {version}"), text)

    def _note_labels(self, rule: Rule, namespace: str) -> None:
        """Tell that the labels of a namespace are unknown, if they decide."""
        if namespace and namespace not in self.namespaces and selects_by_labels(rule):
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
    return Trial("", subject, members, "not sent")


def selects_by_labels(rule: Rule) -> bool:
    """Return whether the labels of namespaces decide, and not their names alone."""
    selector = rule.declaration.namespace_selector
    keys = {expression["key"] for expression in selector.get("matchExpressions") or ()} | {
        *(selector.get("matchLabels") or ())
    }
    return bool(keys - {NAMESPACE_LABEL})
