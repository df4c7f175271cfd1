"""Sends rendered workloads to kube-apiserver in dry runs, before an overrider or an edit of its subject is admitted.

A dry run creates nothing. Each distinct plan is sent once, not once for each node pool, and without owner references:
fleethook's own webhook and policies therefore ignore it, and so do the controllers of OpenYurt. Only the validation of
kube-apiserver refuses an overrider. An answer that depends on the time, on quotas or on the rights of fleethook is a
warning, and the offline rules decide.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.api_errors import FORBIDDEN, APIError, UnreachableError
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.overrider_admission import (
    changes_overrider,
    describe_finding,
    key_of_subject,
    read_subject,
    refuse_overrider,
)
from fleethook.engines.overrider.entries.steps_and_limits import RenderError, StepChange
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import SubjectPlans
from fleethook.engines.overrider.render.template_delta import name_tokens
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.missing_pools import SubjectPools
from fleethook.engines.overrider.rules.schema_and_binding_rules import pools_to_check
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import NodePools, Subject, find_subject
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.patch import format_pointer
from fleethook.work.threads_and_gc import Worker

_log: Final = logging.getLogger(__name__)

Send = Callable[[str, str, JSONObject], Awaitable[None]]
"""Sends a workload of a logical cluster to a path; raises APIError and UnreachableError."""

PLURALS: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
RIGHT: Final = "the right to create deployments and statefulsets of the API group apps"
# The webhooks of overriders and subjects have a timeout of five seconds, and reading the subject takes one at most.
_SECONDS: Final = 2.0
_MAX_CAUSES: Final = 10
_INVALID: Final = 422
_LACKS_RIGHT: Final = re.compile(r"cannot create resource")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


class DryRunWorkload(NamedTuple):
    """A workload to send: that of the first node pool of a plan."""

    pool: str
    kind: str
    plan: Plan


class Trials(NamedTuple):
    """The workloads to send."""

    trials: tuple[DryRunWorkload, ...]
    are_all: bool
    """Whether these are all distinct plans."""


def select_trials(overrider: JSONObject, subject: Subject, pools: SubjectPools, *, limit: int) -> Trials:
    """Return one workload for each distinct plan of an overrider, up to a limit.

    Args:
        overrider: An overrider that renders in all node pools.
        subject: Its subject.
        pools: The node pools of the subject.
        limit: The number of workloads.
    """
    plans = SubjectPlans(subject.group_kind, subject.document, overrider)
    workloads: list[DryRunWorkload] = []
    seen: set[object] = set()
    for pool in pools.names:
        for kind in workload_kinds(subject.document):
            try:
                of_pool = plans.plan(kind, pool, pools.node_pools.get(pool))
            except (RenderError, SubjectError):
                continue  # The rules have reported it.
            if of_pool.applies and of_pool.shared not in seen:
                if len(workloads) >= limit:
                    return Trials(tuple(workloads), are_all=False)
                seen.add(of_pool.shared)
                workloads.append(DryRunWorkload(pool, kind, of_pool.full))
    return Trials(tuple(workloads), are_all=True)


class ServerDryRun:
    """Sends workloads, at most a few for each check."""

    def __init__(self, send: Send, *, limit: int, seconds: float = _SECONDS) -> None:
        """Create a client.

        Args:
            send: Sends a workload in a dry run.
            limit: Workloads of one check; 0 sends none.
            seconds: Seconds for all workloads of one check.
        """
        self.limit: Final = limit
        self._send: Final = send
        self._seconds: Final = seconds
        self._refused: Final[set[tuple[str, str]]] = set()

    async def check(self, selected: Trials, subject: Subject) -> list[Finding]:
        """Return the mistakes that kube-apiserver finds in workloads, and a warning about those that were not checked.

        Args:
            selected: The workloads.
            subject: The subject of all of them.
        """
        if _scope_of(subject) in self._refused:
            return []
        answers = await asyncio.gather(*(self._try(trial, subject) for trial in selected.trials))
        findings = list(dict.fromkeys(finding for answer in answers for finding in answer))
        if not selected.are_all:
            text = f"kube-apiserver checked {len(selected.trials)} distinct workloads, and not the others"
            findings.append(Finding("not-checked", "", text))
        return findings

    async def _try(self, trial: DryRunWorkload, subject: Subject) -> list[Finding]:
        refused = await self._ask(trial, trial.plan.create.rendered, subject)
        if isinstance(refused, Finding):
            return [refused]
        # The author of an overrider cannot correct the template, and rules report mistakes in it.
        bare = await self._ask(trial, trial.plan.create.bare, subject) if refused else ()
        known = () if isinstance(bare, Finding) else bare
        return [_describe(trial, *cause) for cause in refused if cause not in known][:_MAX_CAUSES]

    async def _ask(
        self, trial: DryRunWorkload, workload: JSONObject, subject: Subject
    ) -> Sequence[tuple[str, str]] | Finding:
        """Return the causes of a refusal, or a warning that the workload was not checked."""
        path = f"/apis/apps/v1/namespaces/{_scope_of(subject)[1]}/{PLURALS[trial.kind]}"
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(subject.cluster, path, as_created(workload))
        except APIError as error:
            if error.code == _INVALID and error.causes:
                return error.causes
            if error.code == FORBIDDEN and _LACKS_RIGHT.search(error.message):
                return self._report_right(_scope_of(subject))
            return _not_checked(trial, str(error))
        except (UnreachableError, TimeoutError) as error:
            return _not_checked(trial, str(error) or "no answer in time")
        return ()

    def _report_right(self, scope: tuple[str, str]) -> Finding:
        text = f"not checked by kube-apiserver, because fleethook lacks {RIGHT}"
        if not self._refused:
            _log.warning("overriders are %s; this is reported once", text)
        self._refused.add(scope)
        return Finding("not-checked", "", text)


def _scope_of(subject: Subject) -> tuple[str, str]:
    """Return the logical cluster and the namespace, whose rights decide."""
    return subject.cluster, subject.document["metadata"].get("namespace") or "default"


def as_created(workload: JSONObject) -> JSONObject:
    """Return a rendered workload without the members by which webhooks and controllers know an owned one."""
    metadata = {name: value for name, value in workload["metadata"].items() if name not in ("ownerReferences", "uid")}
    return {**workload, "metadata": metadata}


def to_pointer(field: str) -> str:
    """Return the JSON pointer of a field in an answer of kube-apiserver, such as ``spec.ports[0].name``."""
    return format_pointer([name or key for name, key in _STEP.findall(field)])


def _describe(trial: DryRunWorkload, field: str, message: str) -> Finding:
    pointer = to_pointer(field)
    source = _find_source(trial.plan.create.rendered, pointer, trial.plan.sources)
    text = f"node pool {trial.pool}: kube-apiserver refuses the {trial.kind}: {pointer}: {message}"
    return Finding("does-not-fit", source, text)


def _not_checked(trial: DryRunWorkload, reason: str) -> Finding:
    return Finding(
        "not-checked", "", f"not checked by kube-apiserver ({trial.kind} of node pool {trial.pool}): {reason}"
    )


def _find_source(rendered: JSONObject, pointer: str, sources: Sequence[StepChange]) -> str:
    """Return the path of the step that set a value or a part around it last, ``entries`` if none did."""
    tokens = name_tokens(rendered, pointer)
    while tokens:
        for source in reversed(sources):
            if source.made(tokens):
                return source.field
        tokens = tokens[:-1]
    return "entries"


class LiveAdmission(NamedTuple):
    """Sends the workloads of admitted overriders and subjects to kube-apiserver."""

    dry_runs: ServerDryRun
    store: StoreView
    worker: Worker

    async def check_overrider(self, request: AdmissionRequest, response: Response) -> Response | None:
        """Return the answer to the review of an overrider that the rules admit, None if it stays the same."""
        if not (self.dry_runs.limit and response.allowed and changes_overrider(request)):
            return None
        overrider = request.object
        namespace = request.namespace or overrider["metadata"].get("namespace") or ""
        subject = find_subject(overrider, cluster=cluster_of(overrider), namespace=namespace, store=self.store)
        if subject is None:
            return None
        findings = await self._check(overrider, subject)
        warnings = (*response.warnings, *(finding.text for finding in findings if finding.level == "warning"))
        errors = [finding.cause() for finding in findings if finding.level == "error"]
        if errors:
            return refuse_overrider(overrider, namespace, errors, warnings)
        return msgspec.structs.replace(response, warnings=warnings) if findings else None

    async def check_subject(self, request: AdmissionRequest, response: Response) -> Response | None:
        """Return the answer to the review of a subject that the rules admit, None if it stays the same."""
        if not (self.dry_runs.limit and response.allowed) or request.operation not in ("CREATE", "UPDATE"):
            return None
        old, document = request.old_object, request.object
        parts = as_object(document)
        is_unchanged = request.operation == "UPDATE" and as_object(old).get("spec") == parts.get("spec")
        if is_unchanged or not all(isinstance(parts.get(name), dict) for name in ("metadata", "spec")):
            return None
        key = key_of_subject(request)
        bound = overriders_of(self.store, key)
        node_pools = NodePools(self.store, key.cluster)
        edited = read_subject(key, document, node_pools, bound[0]) if bound else None
        if edited is None:
            return None
        findings = await self._check(bound[0], edited[0])
        texts = [describe_finding(bound[0], finding) for finding in findings]
        return msgspec.structs.replace(response, warnings=(*response.warnings, *texts)) if texts else None

    async def _check(self, overrider: JSONObject, subject: Subject) -> Sequence[Finding]:
        pools = pools_to_check(subject, self.store, overrider)
        select = partial(select_trials, overrider, subject, pools, limit=self.dry_runs.limit)
        selected = await self.worker.run("", select)
        return await self.dry_runs.check(selected, subject)
