"""Verify the certificates of a peer as Go's crypto/x509 does: any path to any root of the bundle is enough."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from fleethook.model.formats.text import escape_line
from fleethook.outbound.tls.certificate import Certificate, check_key, parse_certificate, read_subject
from fleethook.outbound.tls.certificate_der import ANY_POLICY, CertificateError
from fleethook.outbound.tls.certificate_names import explain_constraint

MAX_SIGNATURE_CHECKS: Final = 100
"""The maximum number of candidates for issuers in one verification, as in Go."""
_ANY_USAGE: Final = bytes.fromhex("551d2500")
# The extended key usages serverAuth and clientAuth; anyExtendedKeyUsage includes both.
_SERVER: Final = frozenset({bytes.fromhex("2b06010505070301"), _ANY_USAGE})
_CLIENT: Final = frozenset({bytes.fromhex("2b06010505070302"), _ANY_USAGE})
UNKNOWN_AUTHORITY: Final = "certificate signed by unknown authority"
# The handshake of a server cannot continue in a thread. 20 signatures of the slowest kind take 20 ms.
_MAX_CLIENT_CERTIFICATES: Final = 16
_MAX_CLIENT_CHECKS: Final = 20
# A verification of more certificates runs in a thread.
_MAX_CERTIFICATES_ON_LOOP: Final = 4
_MAX_BYTES_ON_LOOP: Final = 16 * 1024
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class Roots:
    """The trusted certificates of a bundle, by subject. A certificate is parsed when a path may lead to it."""

    def __init__(self, encoded: Iterable[bytes]) -> None:
        """Index certificates in DER; those that Go could not parse are left out."""
        self._by_subject: Final[dict[bytes, dict[bytes, None]]] = {}
        for der in encoded:
            try:
                self._by_subject.setdefault(read_subject(der), {})[der] = None
            except CertificateError:
                continue

    def __contains__(self, certificate: Certificate) -> bool:
        return certificate.der in self._by_subject.get(certificate.subject, ())

    @property
    def is_empty(self) -> bool:
        """Whether no certificate can be parsed."""
        return next(self._parse(der for found in self._by_subject.values() for der in found), None) is None

    def list_periods(self) -> list[tuple[datetime, datetime]]:
        """Return the start and the end of each certificate's validity."""
        found = self._parse(der for encoded in self._by_subject.values() for der in encoded)
        return [(one.starts, one.ends) for one in found]

    def count(self, subjects: Iterable[bytes]) -> tuple[int, int]:
        """Return the number of certificates with one of these subjects, and their size in bytes."""
        sizes = [len(der) for subject in set(subjects) for der in self._by_subject.get(subject, ())]
        return len(sizes), sum(sizes)

    def find(self, subject: bytes) -> list[Certificate]:
        """Return the certificates with a subject."""
        return list(self._parse(self._by_subject.get(subject, ())))

    @staticmethod
    def _parse(encoded: Iterable[bytes]) -> Iterator[Certificate]:
        for der in encoded:
            try:
                yield parse_certificate(der)
            except CertificateError:
                continue


class _LimitError(Exception):
    """Too many candidates for issuers."""


class _Search(NamedTuple):
    roots: Roots
    sent: Mapping[bytes, Sequence[Certificate]]
    """The other certificates of the peer, by subject."""
    now: datetime
    usages: frozenset[bytes]
    """Extended key usages. Each certificate of a path needs one of them, or has no restriction."""
    max_checks: int
    checks: list[None]
    """One for each candidate."""
    hints: list[str]
    """Why candidates were refused."""


def is_light(presented: Sequence[bytes], roots: Roots) -> bool:
    """Return whether a verification takes no more than about a millisecond."""
    if len(presented) > _MAX_CERTIFICATES_ON_LOOP:
        return False
    try:
        candidates, size = roots.count(parse_certificate(der).issuer for der in presented)
    except CertificateError:
        return True
    return candidates <= _MAX_CERTIFICATES_ON_LOOP and size + sum(map(len, presented)) <= _MAX_BYTES_ON_LOOP


def verify(presented: Sequence[bytes], roots: Roots, *, host: str, now: datetime) -> None:
    """Verify the certificates of a server.

    Args:
        presented: The certificates that the server sent, in DER, its own first.
        roots: The trusted certificates.
        host: The DNS name or IP address that the certificate must contain.
        now: The time.

    Raises:
        CertificateError: They do not prove that the server is the host.
    """
    leaf, *others = _parse_all(presented, "server")
    problem = _find_problem(leaf, [], now, is_intermediate=False)
    if problem := problem or leaf.extensions.names.explain_mismatch(host, common_name=leaf.legacy_name):
        raise CertificateError(f"x509: {problem}")
    _find_path(leaf, _start_search(roots, others, now, _SERVER, MAX_SIGNATURE_CHECKS))


def verify_client(presented: Sequence[bytes], roots: Roots, *, now: datetime) -> Sequence[Certificate]:
    """Verify the certificates of a client, and return a path from its own to a root.

    Args:
        presented: The certificates that the client sent, in DER, its own first.
        roots: The trusted certificates.
        now: The time.

    Raises:
        CertificateError: No root vouches for the client.
    """
    if len(presented) > _MAX_CLIENT_CERTIFICATES:
        raise CertificateError(f"tls: the client sent more than {_MAX_CLIENT_CERTIFICATES} certificates")
    leaf, *others = _parse_all(presented, "client")
    if problem := _find_problem(leaf, [], now, is_intermediate=False):
        raise CertificateError(f"x509: {problem}")
    return _find_path(leaf, _start_search(roots, others, now, _CLIENT, _MAX_CLIENT_CHECKS))


def _parse_all(presented: Sequence[bytes], peer: str) -> list[Certificate]:
    try:
        certificates = [parse_certificate(der) for der in presented]
    except CertificateError as error:
        raise CertificateError(f"tls: failed to parse certificate from {peer}: {error}") from None
    if not certificates:
        raise CertificateError(f"tls: the {peer} sent no certificate")
    for position, one in enumerate(certificates):
        check_key(one, is_leaf=position == 0, peer=peer)
    return certificates


def _start_search(
    roots: Roots, others: Sequence[Certificate], now: datetime, usages: frozenset[bytes], max_checks: int
) -> _Search:
    sent: dict[bytes, list[Certificate]] = {}
    for one in {one.der: one for one in others}.values():
        sent.setdefault(one.subject, []).append(one)
    return _Search(roots, sent, now, usages, max_checks, [], [])


def _find_path(leaf: Certificate, search: _Search) -> Sequence[Certificate]:
    problems: list[str] = []
    try:
        for chain in [[leaf]] if leaf in search.roots else _build(search, [leaf]):
            if not (problem := _find_chain_problem(chain, search.usages)):
                return chain
            problems.append(problem)
    except _LimitError:
        search.hints.insert(0, "signature check attempts limit reached while verifying certificate chain")
    raise CertificateError(f"x509: {problems[0] if problems else _explain_unknown(leaf, search.hints)}")


def _explain_unknown(leaf: Certificate, hints: Sequence[str]) -> str:
    if hints:
        return f"{UNKNOWN_AUTHORITY} (possibly because of: {hints[0]})"
    if leaf.subject == leaf.issuer:
        return f"{UNKNOWN_AUTHORITY} (it is self-signed, and not in caBundle)"
    return f"{UNKNOWN_AUTHORITY} (its issuer is not in caBundle)"


def _find_problem(one: Certificate, below: Sequence[Certificate], now: datetime, *, is_intermediate: bool) -> str:
    """Return why a certificate cannot be above others in a path, ``""`` if it can."""
    if one.extensions.has_unknown_critical:
        return "unhandled critical extension"
    if now < one.starts:
        return f"certificate is not yet valid: current time {now:{_TIME}} is before {one.starts:{_TIME}}"
    if now > one.ends:
        return f"certificate has expired: current time {now:{_TIME}} is after {one.ends:{_TIME}}"
    if is_intermediate and not one.extensions.is_authority:
        return "certificate is not authorized to sign other certificates"
    limit = one.extensions.max_intermediates
    if limit is not None and len(below) - 1 > limit:
        return "too many intermediates for path length constraint"
    return ""


def _build(search: _Search, chain: list[Certificate]) -> Iterator[list[Certificate]]:
    """Yield each path from the last certificate to a root; those with equal key identifiers come first."""
    child = chain[-1]
    for is_intermediate, found in (
        (False, search.roots.find(child.issuer)),
        (True, search.sent.get(child.issuer, ())),
    ):
        for parent in sorted(found, key=lambda one: _rank_identifiers(one, child)):
            search.checks.append(None)
            if len(search.checks) > search.max_checks:
                raise _LimitError
            if parent.key is None or _is_repeated(parent, chain):
                continue
            if problem := _explain_signature(parent, child):
                search.hints.append(_hint(problem, parent))
            elif problem := _find_problem(parent, chain, search.now, is_intermediate=is_intermediate):
                # This candidate has signed the child. Its problem explains more than a candidate that has not.
                search.hints.insert(0, _hint(problem, parent))
            elif is_intermediate:
                yield from _build(search, [*chain, parent])
            else:
                yield [*chain, parent]


def _hint(problem: str, candidate: Certificate) -> str:
    return f"{problem}, of candidate {escape_line(candidate.title)!r}"


def _rank_identifiers(parent: Certificate, child: Certificate) -> int:
    own, wanted = parent.extensions.key_identifier, child.extensions.issuer_key_identifier
    if own == wanted:
        return 0
    return 2 if own and wanted else 1


def _is_repeated(one: Certificate, chain: Sequence[Certificate]) -> bool:
    same = (one.subject, one.key_info, one.extensions.encoded_names)
    return any((other.subject, other.key_info, other.extensions.encoded_names) == same for other in chain)


def _explain_signature(parent: Certificate, child: Certificate) -> str:
    try:
        parent.check_signature(child)
    except CertificateError as error:
        return str(error).removeprefix("x509: ")
    return ""


def _find_chain_problem(chain: Sequence[Certificate], usages: frozenset[bytes]) -> str:
    """Return why the usages, policies or name constraints of a path forbid it, ``""`` if they allow it."""
    if not all(usages & one.extensions.usages or not one.extensions.usages for one in chain):
        return "certificate specifies an incompatible key usage"
    if not _has_valid_policy(chain[:-1]):
        return "no valid chains built: 1 candidate chain with invalid policies"
    for position, authority in enumerate(chain):
        permitted, excluded = authority.extensions.permitted, authority.extensions.excluded
        for one in chain[:position]:
            if problem := explain_constraint(one.extensions.names, permitted, excluded):
                return f"a root or intermediate certificate is not authorized to sign for this name: {problem}"
    return ""


def _has_valid_policy(chain: Sequence[Certificate]) -> bool:
    """Return whether the certificates below a root share a policy, or none of them requires that.

    Stricter than RFC 5280, 6.1: mapped policies count as different, and a requirement applies to the entire path.
    """
    if not any(one.extensions.needs_policy for one in chain):
        return True
    limited = [policies for one in chain if ANY_POLICY not in (policies := one.extensions.policies)]
    return not limited or bool(frozenset.intersection(*limited))
