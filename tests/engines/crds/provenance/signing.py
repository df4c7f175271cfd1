"""A Sigstore for tests: authorities, logs, certificates, envelopes and bundles, all made here and without a clock.

`Sigstore.envelope` and `Sigstore.bundle` sign as slsa-github-generator v2.0.0 and v2.1.0 do.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUED = datetime(2025, 5, 30, 8, 0, tzinfo=UTC)
"""When the signer's certificate is issued; it is valid for ten minutes."""
BUILDER = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/generator_generic_slsa3.yml@refs/tags/v2.1.0"
SOURCE = "https://github.com/karmada-io/karmada"
REF = "refs/tags/v1.14.0"
COMMIT = "4be4e6d6f4be4e6d6f4be4e6d6f4be4e6d6f4be4"
IN_TOTO = "application/vnd.in-toto+json"
_SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


class Identity(NamedTuple):
    """The holder that a certificate names."""

    issuer: str = "https://token.actions.githubusercontent.com"
    builder: str = BUILDER
    source: str = SOURCE
    ref: str = REF
    commit: str = COMMIT


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def statement(sha256: str, **changes: Any) -> dict[str, Any]:
    """A statement as slsa-github-generator's generic workflow writes it."""
    predicate = {
        "builder": {"id": BUILDER},
        "buildType": "https://github.com/slsa-framework/slsa-github-generator/generic@v1",
        "invocation": {
            "configSource": {"uri": f"git+{SOURCE}@{REF}", "digest": {"sha1": COMMIT}, "entryPoint": ".github/workflows/release.yml"},
            "environment": {"github_event_name": "release"},
        },
        "metadata": {"completeness": {"parameters": True}},
    }  # fmt: skip
    return {
        "_type": "https://in-toto.io/Statement/v0.1",
        "predicateType": "https://slsa.dev/provenance/v0.2",
        "subject": [{"name": "crds.tar.gz", "digest": {"sha256": sha256}}],
        "predicate": predicate,
        **changes,
    }


class Signer(NamedTuple):
    """A key and the certificate that belongs to it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def envelope(self, payload: bytes, payload_type: str = IN_TOTO) -> dict[str, Any]:
        """The DSSE envelope of a payload, without the certificate."""
        pae = f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} ".encode() + payload
        signature = self.key.sign(pae, ec.ECDSA(hashes.SHA256()))
        return {
            "payloadType": payload_type,
            "payload": b64(payload),
            "signatures": [{"keyid": "", "sig": b64(signature)}],
        }


class Log:
    """A log with a key, identified by the digest of it."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(self.public).digest()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data, ec.ECDSA(hashes.SHA256()))

    def entry(self, signer: Signer, envelope: dict[str, Any], at: datetime) -> dict[str, Any]:
        """The entry of a DSSE envelope (Rekor's dsse 0.0.1), the first of two in the log."""
        pem = signer.certificate.public_bytes(Encoding.PEM)
        digest = hashlib.sha256(base64.b64decode(envelope["payload"])).hexdigest()
        body = _canonical({
            "apiVersion": "0.0.1", "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(_canonical(envelope)).hexdigest()},
                "payloadHash": {"algorithm": "sha256", "value": digest},
                "signatures": [{"signature": envelope["signatures"][0]["sig"], "verifier": b64(pem)}],
            },
        })  # fmt: skip
        leaf, sibling = hashlib.sha256(b"\0" + body).digest(), hashlib.sha256(b"\0another").digest()
        root = hashlib.sha256(b"\1" + leaf + sibling).digest()
        note = f"log.test - 1\n2\n{b64(root)}\n"
        checkpoint = f"{note}\n\u2014 log.test {b64(self.id[:4] + self.sign(note.encode()))}\n"
        time = int(at.timestamp())
        promise = self.sign(
            _canonical({"body": b64(body), "integratedTime": time, "logID": self.id.hex(), "logIndex": 7})
        )
        return {
            "logIndex": "7",
            "logId": {"keyId": b64(self.id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(time),
            "inclusionPromise": {"signedEntryTimestamp": b64(promise)},
            "inclusionProof": {
                "logIndex": "0", "rootHash": b64(root), "treeSize": "2", "hashes": [b64(sibling)], "checkpoint": {"envelope": checkpoint},
            },
            "canonicalizedBody": b64(body),
        }  # fmt: skip


class Sigstore:
    """Authorities and logs; an operator is given `trusted_root` and `pem`."""

    def __init__(self) -> None:
        self._root_key, self._key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
        self._root = _authority("root", self._root_key, "root", self._root_key, None)
        self._issuer = _authority("intermediate", self._key, "root", self._root_key, 0)
        self.ct, self.rekor = Log(), Log()

    @property
    def pem(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in (self._issuer, self._root))

    def trusted_root(self) -> dict[str, Any]:
        start = {"validFor": {"start": "2021-01-01T00:00:00Z"}}
        chain = [{"rawBytes": b64(one.public_bytes(Encoding.DER))} for one in (self._issuer, self._root)]
        logs = [
            {
                "baseUrl": "https://log.test", "hashAlgorithm": "SHA2_256", "logId": {"keyId": b64(log.id)},
                "publicKey": {"rawBytes": b64(log.public), "keyDetails": "PKIX_ECDSA_P256_SHA_256", **start},
            }
            for log in (self.rekor, self.ct)
        ]  # fmt: skip
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": logs[:1],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "test", "commonName": "test"},
                    "uri": "https://ca.test",
                    "certChain": {"certificates": chain},
                    **start,
                }
            ],
            "ctlogs": logs[1:],
            "timestampAuthorities": [],
        }

    def signer(
        self,
        identity: Identity = Identity(),  # noqa: B008 - immutable
        *,
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        issued: datetime = ISSUED,
        ct: Log | None = None,
        logged: bool = True,
        names: Sequence[x509.GeneralName] = (),
    ) -> Signer:
        """A key with a certificate as Fulcio issues it."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder("", key.public_key(), "intermediate", issued, timedelta(minutes=10))
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity.builder), *names]), critical=True
            )
        )
        texts = {8: identity.issuer, 12: identity.source, 13: identity.commit, 14: identity.ref}
        for number, text in texts.items():
            oid = x509.ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}")
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, asn1.encode_der(text)), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        if logged:
            stamps = self._stamps(ct or self.ct, certificate.tbs_certificate_bytes, issued)
            extended = builder.add_extension(x509.UnrecognizedExtension(_SCTS, stamps), critical=False)
            certificate = extended.sign(self._key, hashes.SHA256())
        return Signer(key, certificate)

    def _stamps(self, log: Log, tbs: bytes, at: datetime) -> bytes:
        # RFC 6962, 3.2 and 3.3: one timestamp, of a precertificate.
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        time = struct.pack("!Q", int(at.timestamp() * 1000))
        entry = hashlib.sha256(public).digest() + len(tbs).to_bytes(3, "big") + tbs
        signature = log.sign(b"\0\0" + time + b"\0\1" + entry + b"\0\0")
        stamp = b"\0" + log.id + time + b"\0\0" + b"\4\3" + struct.pack("!H", len(signature)) + signature
        return asn1.encode_der(struct.pack("!HH", len(stamp) + 2, len(stamp)) + stamp)

    def envelope(
        self, payload: dict[str, Any], signer: Signer | None = None, payload_type: str = IN_TOTO
    ) -> dict[str, Any]:
        """A document as slsa-github-generator v2.0.0 writes it."""
        signer = signer or self.signer()
        document = signer.envelope(json.dumps(payload).encode(), payload_type)
        document["signatures"][0]["cert"] = signer.certificate.public_bytes(Encoding.PEM).decode()
        return document

    def bundle(
        self, payload: dict[str, Any], signer: Signer | None = None, *, at: datetime = ISSUED + timedelta(seconds=5), log: Log | None = None
    ) -> dict[str, Any]:  # fmt: skip
        """A document as slsa-github-generator v2.1.0 writes it."""
        signer = signer or self.signer()
        envelope = signer.envelope(json.dumps(payload).encode())
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": b64(signer.certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [(log or self.rekor).entry(signer, envelope, at)],
            },
            "dsseEnvelope": envelope,
        }


def _canonical(value: Any) -> bytes:
    # RFC 8785 for the values that are signed here: ASCII and integers.
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)] if text else [])


def _builder(
    subject: str, key: ec.EllipticCurvePublicKey, issuer: str, start: datetime, period: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + period)
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _authority(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signed_by: ec.EllipticCurvePrivateKey, length: int | None
) -> x509.Certificate:
    start = datetime(2022, 1, 1, tzinfo=UTC)
    return (
        _builder(name, key.public_key(), issuer, start, timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=length), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signed_by.public_key()), critical=False)
        .sign(signed_by, hashes.SHA256())
    )
