"""The servers that are measured: ours, the same app answering a constant review, and an ordinary FastAPI webhook.

"Constant review" is read twice: as a handler that always returns the same verdict (the review is decoded, answered to its
uid, counted and logged: the least that any webhook in this app does), and as constant bytes (what HTTP and TLS cost).

`python benchmarks/servers.py NAME --port N --overriders N --cert-dir DIR`
"""

import argparse
import asyncio
import base64
import copy
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from reviews import overrider, yurt_app_set

from app.api.body import check_headers, read_body
from app.api.edge import ReviewEndpoint
from app.api.endpoint import respond
from app.api.interpret import InterpretEndpoint
from app.api.logs import configure_logging, encode_line, write_line
from app.asgi import create_app
from app.certs.context import ReloadingContext
from app.certs.files import ensure_certificates
from app.cli.server import GracefulServer, server_config
from app.interpret.chain import Chain
from app.interpret.codec import decode_review
from app.model.admission import patched
from app.settings import Settings

PATH = "/mutate-apps-v1-deployment"
EXPLORE = "/explore"
NAMES = ["localhost", "127.0.0.1"]


def ours(port: int, overriders: int, directory: Path, *, kind: str) -> None:
    """Everything switched on: TLS, limits, metrics with exemplars, one log line per review."""
    settings = Settings(port=port, cert_dir=directory)
    configure_logging()
    app = create_app(settings, log=write_line)
    app.store.put(yurt_app_set())
    for number in range(overriders - 1):
        app.store.put(overrider(f"other-{number}"))
    app.store.put(overrider())
    if kind == "floor":
        verdict = patched([{"op": "replace", "path": "/spec/replicas", "value": 5}])
        app.reviews[PATH] = ReviewEndpoint(
            PATH, lambda _: verdict, metrics=app.metrics, body_limit=settings.body_limit, log=write_line
        )
        app.reviews[EXPLORE] = ConstantAnswer(
            EXPLORE, Chain([]), metrics=app.metrics, body_limit=settings.body_limit, log=write_line
        )
    elif kind == "echo":
        app.reviews[PATH] = constant_endpoint(settings.body_limit)
    files = ensure_certificates(directory, names=NAMES, now=datetime.now(UTC))
    config = server_config(app, ReloadingContext(files).context)
    announce = lambda port: print(f"serving on {port}", flush=True)  # noqa: E731 - a callback
    server = GracefulServer(config, app, ready=announce)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve())


class ConstantAnswer(InterpretEndpoint):
    """The least that an interpreter does: the review is decoded, answered to its uid, counted and logged."""

    async def _answer(self, body: bytes, request_id: str, scope: Any) -> tuple[int, bytes]:
        del request_id, scope
        started = time.perf_counter()
        asked = decode_review(body)
        answer = msgspec.json.encode(
            {
                "apiVersion": "config.karmada.io/v1alpha1", "kind": asked.kind,
                "response": {"uid": asked.uid, "successful": True, "healthy": True},
            }
        )  # fmt: skip
        seconds = time.perf_counter() - started
        self._metrics.reviewed(self._path, "InterpretHealth", "answered", seconds=seconds, request_id=asked.uid)
        fields = self._fields(asked, None, (), None)
        self._log(encode_line(fields | {"requestId": asked.uid, "ms": round(seconds * 1000, 3)}))
        return 200, answer


def constant_endpoint(limit: int) -> Any:
    """Not a webhook at all: the same app, TLS, routing and body reading; constant bytes, nothing decoded or counted."""
    patch = base64.b64encode(b'[{"op":"replace","path":"/spec/replicas","value":5}]').decode()
    answer = (
        '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002",'
        f'"allowed":true,"patch":"{patch}","patchType":"JSONPatch"}}}}'
    ).encode()

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        check_headers(scope["headers"], limit=limit)
        await read_body(receive, limit=limit)
        await respond(send, 200, answer)

    return endpoint


# What people write today: models of what they touch, extra members kept, a patch by difference. It does the same job
# with the overrides written into the code: no look-up, no template, no memory of what it did.


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


def ordinary(port: int, directory: Path) -> None:
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

    files = ensure_certificates(directory, names=NAMES, now=datetime.now(UTC))
    config = uvicorn.Config(
        app, port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning", timeout_keep_alive=120,
        ssl_certfile=str(files.certificate), ssl_keyfile=str(files.key),
    )  # fmt: skip
    server = uvicorn.Server(config)

    async def run() -> None:
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(f"serving on {server.servers[0].sockets[0].getsockname()[1]}", flush=True)
        await task

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["fleethook", "floor", "echo", "ordinary"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--overriders", type=int, default=10)
    parser.add_argument("--cert-dir", type=Path, required=True)
    given = parser.parse_args()
    if given.name == "ordinary":
        ordinary(given.port, given.cert_dir)
    else:
        ours(given.port, given.overriders, given.cert_dir, kind=given.name)


if __name__ == "__main__":
    main()
