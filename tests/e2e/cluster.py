"""A real etcd and a real kube-apiserver on free loopback ports, with RBAC and real certificates."""

import contextlib
import functools
import http.client
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml

from tests.pki import Authority, Pair

START_SECONDS = 300.0
WITH_ACCOUNTS = "--enable-admission-plugins=ServiceAccount"
"""The flag of a control plane with the plugin ServiceAccount."""


class RefusedError(AssertionError):
    """The apiserver refused a request that a test expects to succeed."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body.get('message', body) if isinstance(body, dict) else body}")
        self.status = status
        self.body = body


class Api:
    """A client of the apiserver: raw JSON in and out, one connection for each call."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, token: str | None = None) -> None:
        self._address = address
        self._context = context
        self._token = token

    def call(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", **query: str
    ) -> tuple[int, Any, list[str]]:
        """Return status, decoded body and warnings."""
        with contextlib.closing(self.connect()) as connection:
            response = self.send(connection, method, path, body, content_type=content_type, **query)
            return decode(response)

    def connect(self, *, timeout: float | None = 30) -> http.client.HTTPSConnection:
        """Return a connection to the apiserver; the caller closes it."""
        return http.client.HTTPSConnection(*self._address, context=self._context, timeout=timeout)

    def send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **query: str,
    ) -> http.client.HTTPResponse:
        """Send a request on a connection and return the response, whose body is not read yet."""
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        target = f"{path}?{urlencode(query)}" if query else path
        connection.request(method, target, body=None if body is None else json.dumps(body), headers=headers)
        return connection.getresponse()

    def __getitem__(self, path: str) -> Any:
        return self._expect("GET", path)

    def create(self, path: str, body: Any, **query: str) -> Any:
        return self._expect("POST", path, body, **query)

    def replace(self, path: str, body: Any) -> Any:
        return self._expect("PUT", path, body)

    def put(self, path: str, body: Any, **query: str) -> tuple[int, Any, list[str]]:
        """Replace an object like `call`, also if the stored version is newer than the one in the body.

        Controllers write the status of an object at any time, so a test may have read an old version.
        """
        answer = self.call("PUT", path, body, **query)
        while answer[0] == 409 and "resourceVersion" in body["metadata"]:
            version = self[path]["metadata"]["resourceVersion"]
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
            answer = self.call("PUT", path, body, **query)
        return answer

    def merge(self, path: str, body: Any) -> Any:
        return self._expect("PATCH", path, body, content_type="application/merge-patch+json")

    def apply(self, path: str, body: Any, *, manager: str = "e2e") -> Any:
        return self._expect(
            "PATCH", path, body, content_type="application/apply-patch+yaml", fieldManager=manager, force="true"
        )

    def delete(self, path: str) -> Any:
        return self._expect("DELETE", path)

    def _expect(self, method: str, path: str, body: Any = None, **rest: Any) -> Any:
        send = self.put if method == "PUT" else functools.partial(self.call, method)
        status, answer, _ = send(path, body, **rest)
        deadline = time.monotonic() + START_SECONDS
        while (status == 429 or _came_too_late(status, answer)) and time.monotonic() < deadline:
            # 429: "storage is (re)initializing", a kube-apiserver that has just started.
            time.sleep(0.1)
            status, answer, _ = send(path, body, **rest)
        if status >= 300:
            raise RefusedError(status, answer)
        return answer


def _came_too_late(status: int, answer: Any) -> bool:
    """Return whether a webhook was slower than its timeout, as it can be on a busy machine; users send the write again."""
    return status == 500 and "failed calling webhook" in str(answer) and "context deadline exceeded" in str(answer)


def decode(response: http.client.HTTPResponse) -> tuple[int, Any, list[str]]:
    """Read a response; return status, decoded body and warnings."""
    text = response.read()
    warnings = [value for name, value in response.getheaders() if name.lower() == "warning"]
    try:
        return response.status, json.loads(text), warnings
    except ValueError:
        return response.status, text.decode(), warnings


class Running(NamedTuple):
    """A process of the control plane and how to start it again."""

    process: "subprocess.Popen[bytes]"
    command: list[str]
    log: Path


class ControlPlane:
    """etcd and kube-apiserver; ended by their pids."""

    def __init__(self, binaries: Path, directory: Path, *flags: str) -> None:
        self._binaries = binaries
        self._flags = flags
        self.directory = directory
        self.etcd_port, self._peer_port, self.port = (free_port() for _ in range(3))
        self.authority = Authority(directory, "cluster-ca")
        self.admin = self.authority.issue("admin", "system:masters")
        # The client certificate of the apiserver for webhooks; its own authority is the server's --client-ca-file.
        self.webhook_authority = Authority(directory, "webhook-client-ca")
        self.webhook_client = self.webhook_authority.issue("kube-apiserver-webhook-client")
        self._serving = self.authority.issue("kube-apiserver", addresses=("127.0.0.1", "localhost"))
        self._accounts = self.authority.issue("service-accounts")
        self._processes: dict[str, Running] = {}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def api(self, client: Pair | None = None, token: str | None = None) -> Api:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if token is None:
            pair = client or self.admin
            context.load_cert_chain(pair.certificate, pair.key)
        return Api(("127.0.0.1", self.port), context, token)

    def kubeconfig(self, name: str, user: dict[str, str] | Pair | None = None, *, server: str | None = None) -> Path:
        """Write a kubeconfig, of an administrator by default, and return its path."""
        if not isinstance(user, dict):
            pair = user or self.admin
            user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        cluster = {"server": server or self.url, "certificate-authority": str(self.authority.certificate)}
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "c",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": user}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )  # fmt: skip
        return path

    def start(self) -> None:
        self.start_etcd()
        self.start_apiserver()

    def start_etcd(self) -> None:
        client, peer = f"https://127.0.0.1:{self.etcd_port}", f"https://127.0.0.1:{self._peer_port}"
        pair = self.authority.issue("etcd", addresses=("127.0.0.1",))
        certificates = [f"--cert-file={pair.certificate}", f"--key-file={pair.key}", "--client-cert-auth"]
        certificates += [
            f"--peer-cert-file={pair.certificate}",
            f"--peer-key-file={pair.key}",
            "--peer-client-cert-auth",
        ]
        certificates += [f"--{role}trusted-ca-file={self.authority.certificate}" for role in ("", "peer-")]
        # The data ends with the test session, so fsync is of no use.
        self._run(
            "etcd",
            [
                f"--data-dir={self.directory / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync", "--log-level=warn", *certificates,
            ],
        )  # fmt: skip

    def start_apiserver(self) -> None:
        etcd_client = self.authority.issue("apiserver-etcd-client")
        admission = self._admission_configuration()
        self._run(
            "kube-apiserver",
            [
                "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}",
                f"--etcd-servers=https://127.0.0.1:{self.etcd_port}", f"--etcd-cafile={self.authority.certificate}",
                f"--etcd-certfile={etcd_client.certificate}", f"--etcd-keyfile={etcd_client.key}",
                f"--client-ca-file={self.authority.certificate}", "--authorization-mode=RBAC", "--anonymous-auth=false",
                f"--tls-cert-file={self._serving.certificate}", f"--tls-private-key-file={self._serving.key}",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={self._accounts.certificate}",
                f"--service-account-signing-key-file={self._accounts.key}", "--service-cluster-ip-range=10.0.0.0/24,fd00:10::/112",
                # It admits pods only where a service account controller runs; there is none here.
                *(["--disable-admission-plugins=ServiceAccount"] if WITH_ACCOUNTS not in self._flags else []),
                "--endpoint-reconciler-type=none",
                "--allow-privileged=true",
                f"--admission-control-config-file={admission}", "--etcd-compaction-interval=0", "--v=1",
                f"--audit-policy-file={self._audit_policy()}", f"--audit-log-path={self.directory / 'audit.log'}",
                *self._flags,
            ],
        )  # fmt: skip
        self.wait_ready()

    def start_controller_manager(
        self, program: Path, controllers: str = "deployment-controller,replicaset-controller,statefulset-controller"
    ) -> None:
        """Start controllers, by default those of Deployments, ReplicaSets and StatefulSets; no kubelet follows."""
        self._run(
            "kube-controller-manager",
            [
                f"--kubeconfig={self.kubeconfig('controller-manager')}",
                f"--controllers={controllers}",
                # A single process with an administrator's credentials and without clients.
                "--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0",
                # The rate limits of the client must not change the number of ReplicaSets that a test counts.
                "--kube-api-qps=500", "--kube-api-burst=1000", "--v=1",
            ],
            program=program,
        )  # fmt: skip

    def _audit_policy(self) -> Path:
        """Write an audit policy that records the requests of service accounts."""
        path = self.directory / "audit.yaml"
        rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        path.write_text(yaml.safe_dump(policy))
        return path

    def read_audit_log(self, user: str) -> Iterator[tuple[str, str, str, int]]:
        """Yield group, resource with subresource, verb and answer of each request of a user."""
        with (self.directory / "audit.log").open() as log:
            for line in log:
                if not line.endswith("\n"):
                    return  # being written
                event = json.loads(line)
                about = event.get("objectRef", {})
                if event["user"]["username"] == user:
                    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
                    code = event.get("responseStatus", {}).get("code", 0)
                    yield about.get("apiGroup", ""), resource, event["verb"], code

    def _admission_configuration(self) -> Path:
        """Write a configuration with which the apiserver sends a client certificate to every webhook, as for mTLS."""
        client = self.directory / "webhook-client.kubeconfig"
        pair = self.webhook_client
        credentials = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        client.write_text(
            yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": credentials}]})
        )
        configuration = {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(client),
        }  # fmt: skip
        plugins = [
            {"name": name, "configuration": configuration}
            for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
        ]
        path = self.directory / "admission.yaml"
        path.write_text(
            yaml.safe_dump(
                {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
            )
        )
        return path

    def _run(self, name: str, arguments: list[str], *, program: Path | None = None) -> None:
        log = self.directory / f"{name}.log"
        command = [str(program or self._binaries / name), *arguments]
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self.directory)
        self._processes[name] = Running(process, command, log)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        api = self.api()
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if api.call("GET", "/readyz")[0] == 200:
                    return
            for name, running in self._processes.items():
                if running.process.poll() is not None:
                    raise AssertionError(f"{name} ended: {_tail(running.log)}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not ready: {_tail(self._processes['kube-apiserver'].log)}")
            time.sleep(0.1)

    def kill(self, name: str) -> None:
        """Kill a process as in a crash."""
        running = self._processes[name]
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(timeout=30)

    def compact(self) -> None:
        """Compact etcd to the current revision, so that older watches end with 410 Gone."""
        self.etcdctl_compact(self._revision())

    def _revision(self) -> int:
        answer = self._etcd("/v3/kv/range", {"key": "AA=="})
        return int(answer["header"]["revision"])

    def etcdctl_compact(self, revision: int) -> None:
        self._etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})

    def _etcd(self, path: str, body: Any) -> Any:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        pair = self.authority.issue("etcd-test-client")
        context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection("127.0.0.1", self.etcd_port, context=context, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", path, body=json.dumps(body))
            response = connection.getresponse()
            answer = json.loads(response.read())
            assert response.status == 200, answer
            return answer

    def process_id(self, name: str) -> int:
        """Return the process id of a running part, such as kube-apiserver."""
        return self._processes[name].process.pid

    def memory(self) -> int:
        """Resident bytes of all processes."""
        pages = (int(Path(f"/proc/{r.process.pid}/statm").read_text().split()[1]) for r in self._processes.values())
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Kill all processes. Nobody reads their data afterwards, and a graceful end takes up to 20 seconds."""
        for name in list(self._processes):
            self.kill(name)
            del self._processes[name]


def kubectl(binaries: Path) -> str:
    """Return the installed kubectl, or the built one."""
    return shutil.which("kubectl") or str(binaries / "kubectl")


_RESERVED: list[socket.socket] = []


def free_port() -> int:
    """Return a port of the loopback for a program of this process, which no other process of the tests gets.

    It is below the range from which the system takes the ports of connections, so that none of them takes it before
    the program listens. An abstract socket reserves it until this process ends.
    """
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    for port in random.SystemRandom().sample(range(int(first) // 2, int(first)), k=1000):
        reservation = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as listener:
            reservation.bind(f"\0fleethook-tests-port-{port}")
            listener.bind(("127.0.0.1", port))
            _RESERVED.append(reservation)
            return port
        reservation.close()
    raise AssertionError("no port is free")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


@contextlib.contextmanager
def control_plane(binaries: Path, directory: Path, *flags: str) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver, the latter with further flags, wait until they are ready, and end them afterwards."""
    plane = ControlPlane(binaries, directory, *flags)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def is_established(admin: Api, name: str) -> bool:
    conditions = (admin[f"{CRDS}/{name}"].get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
