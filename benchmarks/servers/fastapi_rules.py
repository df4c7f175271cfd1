"""The five rules of `examples/policies/rules.py` as routes of FastAPI: models of the members that they read, python-json-patch for the change."""

import argparse
import asyncio
import base64
import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import Field

from benchmarks.servers import NAMES
from benchmarks.servers.ordinary import Announcing, Model
from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates

LABELS = ("app.kubernetes.io/name", "owner")
REGISTRY = "registry.example.com/"


class Resources(Model):
    requests: dict[str, str] = Field(default={})
    limits: dict[str, str] = Field(default={})


class Container(Model):
    name: str
    image: str
    resources: Resources = Resources()


class PodSecurityContext(Model):
    seccomp_profile: dict[str, Any] | None = Field(default=None, alias="seccompProfile")


class PodSpec(Model):
    containers: list[Container]
    init_containers: list[Container] = Field(default=[], alias="initContainers")
    ephemeral_containers: list[Container] = Field(default=[], alias="ephemeralContainers")
    security_context: PodSecurityContext | None = Field(default=None, alias="securityContext")


class ObjectMeta(Model):
    labels: dict[str, str] = Field(default={})


class Pod(Model):
    metadata: ObjectMeta
    spec: PodSpec


class Request(Model):
    uid: str
    operation: str
    object: Pod


class Review(Model):
    api_version: str = Field(alias="apiVersion")
    kind: str
    request: Request


def list_containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    spec = pod.spec
    for kind, containers in (
        ("initContainers", spec.init_containers), ("containers", spec.containers), ("ephemeralContainers", spec.ephemeral_containers),
    ):  # fmt: skip
        for index, one in enumerate(containers):
            yield f"spec.{kind}[{index}]", one


def find_missing_label(pod: Pod) -> str:
    missing = (label for label in LABELS if not pod.metadata.labels.get(label))
    return next((f"metadata.labels: label `{label}` is missing" for label in missing), "")


def find_other_registry(pod: Pod) -> str:
    found = (field for field, one in list_containers(pod) if not one.image.startswith(REGISTRY))
    return next((f"{field}.image: the image is not of {REGISTRY}" for field in found), "")


def find_latest(pod: Pod) -> str:
    for field, one in list_containers(pod):
        if one.image.rpartition("/")[2].partition(":")[2] in ("", "latest"):
            return f"{field}.image: use a fixed tag"
    return ""


def find_missing_resource(pod: Pod) -> str:
    for index, one in enumerate(pod.spec.containers):
        given = {"requests": one.resources.requests, "limits": one.resources.limits}
        for kind, name in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory")):
            if name not in given[kind]:
                return f"spec.containers[{index}].resources.{kind}.{name}: is missing"
    return ""


VALIDATIONS = {
    "required-labels": find_missing_label, "image-registries": find_other_registry, "no-latest": find_latest,
    "resource-limits": find_missing_resource,
}  # fmt: skip


def app_of() -> FastAPI:
    app = FastAPI()

    @app.post("/rules/validate/{rule}")
    async def validate(rule: str, review: Review) -> dict[str, Any]:
        problem = VALIDATIONS[rule](review.request.object)
        refusal = {"status": {"code": 403, "message": problem}} if problem else {}
        return answer(review, {"allowed": not problem, **refusal})

    @app.post("/rules/mutate/seccomp")
    async def mutate(review: Review) -> dict[str, Any]:
        pod = review.request.object
        before = pod.model_dump(by_alias=True, exclude_unset=True)
        changed = copy.deepcopy(pod)
        if changed.spec.security_context is None:
            changed.spec.security_context = PodSecurityContext()
        if changed.spec.security_context.seccomp_profile is None:
            changed.spec.security_context.seccomp_profile = {"type": "RuntimeDefault"}
        patch = jsonpatch.make_patch(before, changed.model_dump(by_alias=True, exclude_unset=True))
        if not patch:
            return answer(review, {"allowed": True})
        text = base64.b64encode(patch.to_string().encode()).decode()
        return answer(review, {"allowed": True, "patchType": "JSONPatch", "patch": text})

    return app


def answer(review: Review, response: dict[str, Any]) -> dict[str, Any]:
    uid = review.request.uid
    return {"apiVersion": review.api_version, "kind": review.kind, "response": {"uid": uid, **response}}


def serve(given: argparse.Namespace) -> None:
    files = ensure_certificates(given.cert_dir, names=NAMES, now=datetime.now(UTC))
    config = uvicorn.Config(
        app_of(), port=given.port, loop="uvloop", http="httptools", access_log=False, log_level="warning", timeout_keep_alive=120,
        ssl_certfile=str(files.certificate), ssl_keyfile=str(files.key),
    )  # fmt: skip
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Announcing(config).serve())
