"""An ordinary webhook in Python: a FastAPI route, models of the members that it changes, a patch by difference.

It does the same job with the overrides in its code: no lookup, no template, no annotations for an undo, no metrics
and no log line. The models keep other members.
"""

import argparse
import asyncio
import base64
import copy
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from benchmarks.servers import NAMES, PATH
from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)


class EnvVar(Model):
    name: str
    value: str | None = None


class Container(Model):
    name: str
    image: str | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None


class PodSpec(Model):
    containers: list[Container]
    volumes: list[dict[str, Any]] | None = None


class PodTemplate(Model):
    spec: PodSpec


class DeploymentSpec(Model):
    replicas: int | None = None
    template: PodTemplate


class ObjectMeta(Model):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Deployment(Model):
    metadata: ObjectMeta
    spec: DeploymentSpec


class Request(Model):
    uid: str
    operation: str
    object: Deployment
    old_object: Deployment | None = Field(default=None, alias="oldObject")


class Review(Model):
    api_version: str = Field(alias="apiVersion")
    kind: str
    request: Request


def app_of() -> FastAPI:
    app = FastAPI()

    @app.post(PATH)
    async def mutate(review: Review) -> dict[str, Any]:
        deployment = review.request.object
        before = deployment.model_dump(by_alias=True, exclude_unset=True)
        changed = copy.deepcopy(deployment)
        first = changed.spec.template.spec.containers[0]
        first.image = "registry.hangzhou.example.com/shop/app:1.14.2"
        first.env = [*(first.env or []), EnvVar(name="REGION", value="hangzhou")]
        first.args = [*(first.args or [])[:2], "--log-level=debug", *(first.args or [])[3:]]
        changed.spec.template.spec.volumes = [
            *(changed.spec.template.spec.volumes or []),
            {"name": "logs", "hostPath": {"path": "/data/logs"}},
        ]
        changed.spec.replicas = 5
        patch = jsonpatch.make_patch(before, changed.model_dump(by_alias=True, exclude_unset=True))
        response = {
            "uid": review.request.uid, "allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(patch.to_string().encode()).decode(),
        }  # fmt: skip
        return {"apiVersion": review.api_version, "kind": review.kind, "response": response}

    return app


class Announcing(uvicorn.Server):
    """Prints the port that it serves on."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(f"serving on {self.servers[0].sockets[0].getsockname()[1]}", flush=True)


def serve(given: argparse.Namespace) -> None:
    files = ensure_certificates(given.cert_dir, names=NAMES, now=datetime.now(UTC))
    config = uvicorn.Config(
        app_of(), port=given.port, loop="uvloop", http="httptools", access_log=False, log_level="warning", timeout_keep_alive=120,
        ssl_certfile=str(files.certificate), ssl_keyfile=str(files.key),
    )  # fmt: skip
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Announcing(config).serve())
