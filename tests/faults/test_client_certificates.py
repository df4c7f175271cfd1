"""Client certificates that name their holder in unusual ways, against the real server process."""

import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from cryptography import x509

from tests.faults.raw_requests import REQUEST, read_status, read_to_end
from tests.pki import Authority
from tests.serving import Server, serving
from tests.waiting import NET

DISPATCH = REQUEST.replace(b"/mutate-apps-v1-deployment", b"/dispatch/mutate").replace(
    b"\r\n", b"\r\nConnection: close\r\n", 1
)


class Trusting(NamedTuple):
    """A server, and the authority of its trusted clients."""

    server: Server
    authority: Authority

    def connect(self, *addresses: str) -> ssl.SSLSocket:
        """Connect with a certificate that has an empty subject; without addresses, connect without a certificate."""
        context = self.server.context()
        if addresses:
            pair = self.authority.issue_to(x509.Name([]), addresses[0], addresses)
            context.load_cert_chain(pair.certificate, pair.key)
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=NET)
        return context.wrap_socket(plain, server_hostname="localhost")


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority(directory, "clients")
    callers = '["kube-apiserver.example.org"]'
    with serving(
        directory, "--client-ca-file", str(authority.certificate), FLEETHOOK_DISPATCH_CALLERS=callers
    ) as server:
        yield Trusting(server, authority)


def test_a_certificate_with_an_empty_subject_and_a_san_is_accepted(trusting: Trusting) -> None:
    with trusting.connect("workload.example.org") as connection:
        assert read_status(connection) == b"200"


def test_a_client_without_certificate_is_refused(trusting: Trusting) -> None:
    with trusting.connect() as connection:
        assert read_status(connection) == b"403"


def test_a_caller_is_found_by_its_san(trusting: Trusting) -> None:
    connection = trusting.connect("kube-apiserver.example.org")
    connection.sendall(DISPATCH)
    assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")


def test_a_refusal_names_the_san_of_a_caller_without_subject(trusting: Trusting) -> None:
    connection = trusting.connect("workload.example.org")
    connection.sendall(DISPATCH)
    answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"the client certificate (DNS=workload.example.org) has none of these names" in answer
