"""A certificate replaced under load: no request and no connection is lost."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleethook.cluster.certificates.authority_and_serving_certificate import KeyPair, issue_serving, new_authority
from tests.serving import serving
from tests.traffic import send_traffic
from tests.waiting import wait_for

NAMES = ["localhost", "127.0.0.1"]


class Mounted:
    """A directory as a kubelet mounts a Secret: the files link into a directory that a rename replaces."""

    def __init__(self, directory: Path, authority: KeyPair) -> None:
        self._directory = directory
        self._count = 0
        directory.mkdir()
        self.authority = authority
        self.update(self.issued())
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (directory / name).symlink_to(Path("..data") / name)

    def issued(self) -> KeyPair:
        return issue_serving(self.authority, names=NAMES, now=datetime.now(UTC))

    def update(self, pair: KeyPair) -> None:
        self._count += 1
        version = self._directory / f"..{self._count}"
        version.mkdir()
        (version / "tls.crt").write_bytes(pair.certificate_pem)
        (version / "tls.key").write_bytes(pair.key_pem)
        (version / "ca.crt").write_bytes(self.authority.certificate_pem)
        link = self._directory / "..data.new"
        link.symlink_to(version.name)
        link.replace(self._directory / "..data")


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "certs", new_authority(now=datetime.now(UTC)))


def create_context(mounted: Mounted) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=mounted.authority.certificate_pem.decode())


def test_replacing_the_certificate_three_times_fails_nothing(tmp_path: Path, mounted: Mounted) -> None:
    with serving(tmp_path) as server:
        with send_traffic(server.port, lambda: create_context(mounted)) as traffic:
            for replaced in range(3):
                mounted.update(mounted.issued())
                wait_for(
                    lambda replaced=replaced: len(traffic.serials) == replaced + 2, what="the new certificate is served"
                )
        assert traffic.failures == []
        assert traffic.answered["kept"] > 100
        assert traffic.answered["new"] > 10
        assert server.stop() == 0


def test_a_mismatched_pair_is_refused_and_the_former_stays(tmp_path: Path, mounted: Mounted) -> None:
    with serving(tmp_path) as server:
        with send_traffic(server.port, lambda: create_context(mounted), kept=2, new=1) as traffic:
            half = KeyPair(mounted.issued().certificate_pem, mounted.issued().key_pem)
            mounted.update(half)
            wait_for(lambda: "the certificate in use is kept" in server.log.read_text())
            assert len(traffic.serials) == 1
            mounted.update(mounted.issued())
            wait_for(lambda: len(traffic.serials) == 2, what="a valid certificate is served")
        assert traffic.failures == []
        assert "PRIVATE" not in server.log.read_text()
