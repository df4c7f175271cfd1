"""Foreign webhooks: one changes workloads after fleethook's and causes a reinvocation, one records all reviews."""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fleethook.patch import diff
from tests.e2e.cluster import Api
from tests.e2e.fleet import WEBHOOKS
from tests.hook_server import tls

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the workload after the webhook's changes; must not change its argument."""

Review = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""Returns the operations of the patch for a request."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if operations := self.server.review(request):
            text = base64.b64encode(json.dumps(operations).encode()).decode()
            response |= {"patch": text, "patchType": "JSONPatch"}
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # Joined at close, so that no connection stays open.

    def __init__(self, directory: Path, review: Review) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.review = review
        context, self.ca_bundle = tls(directory)
        # The handshake happens at the first read, on the connection's own thread.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """A client that goes away, or is cut off at the end."""

    def end(self) -> None:
        """Close every connection and wait for its thread."""
        self.shutdown()
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.server_close()


def _configuration(phase: str, name: str, server: _Server, webhook: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{phase}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "foreign.example.com",
                "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": server.ca_bundle},
                "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
                **webhook,
            }
        ],
    }  # fmt: skip


@contextlib.contextmanager
def _registered(
    admin: Api, directory: Path, review: Review, *, phase: str, name: str, webhook: dict[str, Any]
) -> Iterator[None]:
    """Run a webhook, and register it with the given members."""
    path = f"{WEBHOOKS}/{phase.lower()}webhookconfigurations"
    server = _Server(directory, review)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="foreign webhook", daemon=True)
    thread.start()
    try:
        admin.create(path, _configuration(phase, name, server, webhook))
        yield
    finally:
        admin.call("DELETE", f"{path}/{name}")
        server.end()
        thread.join(10)


@contextlib.contextmanager
def foreign_webhook(admin: Api, directory: Path, namespace: str, change: Change) -> Iterator[None]:
    """Run a webhook that changes the workloads of a namespace.

    Apiservers call webhooks in the order of the names of configurations, so the name begins with "zz".
    """
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    webhook = {
        "rules": [{**rule, "resources": ["deployments", "statefulsets"], "scope": "Namespaced"}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "reinvocationPolicy": "IfNeeded",
    }
    name = f"zz-foreign-{namespace}"
    with _registered(
        admin,
        directory,
        lambda request: diff(request["object"], change(request["object"])),
        phase="Mutating",
        name=name,
        webhook=webhook,
    ):
        yield


@contextlib.contextmanager
def recording_webhook(
    admin: Api, directory: Path, user: str, *, phase: str = "Validating"
) -> Iterator[list[dict[str, Any]]]:
    """Run a webhook that gets all requests of a user in the form that the user sent; yield the list of requests."""
    seen: list[dict[str, Any]] = []
    webhook = {
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}],
        "matchPolicy": "Exact",
        "matchConditions": [{"name": "user", "expression": f"request.userInfo.username == '{user}'"}],
    }

    def record(request: dict[str, Any]) -> list[dict[str, Any]]:
        seen.append(request)
        return []

    with _registered(admin, directory, record, phase=phase, name=f"recording-{user}", webhook=webhook):
        yield seen
