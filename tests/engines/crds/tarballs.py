"""Builds CRD tarballs for tests, without files of upstream.

`build` makes a tarball of members, `release` one shaped like Karmada v1.18.0 (33 entries, about 90 KB).
"""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping

GROUPS = {
    "apps.karmada.io": ["workloadrebalancers"],
    "autoscaling.karmada.io": ["cronfederatedhpas", "federatedhpas"],
    "config.karmada.io": ["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"],
    "multicluster.x-k8s.io": ["serviceexports", "serviceimports"],
    "networking.karmada.io": ["multiclusteringresses", "multiclusterservices"],
    "policy.karmada.io": [
        "clusteroverridepolicies",
        "clusterpropagationpolicies",
        "clustertaintpolicies",
        "federatedresourcequotas",
        "overridepolicies",
        "propagationpolicies",
    ],
    "remedy.karmada.io": ["remedies"],
    "work.karmada.io": ["clusterresourcebindings", "resourcebindings", "works"],
}
PATCHES = ("webhook_in_clusterresourcebindings.yaml", "webhook_in_resourcebindings.yaml")


def crd(plural: str, group: str, *, properties: int = 1, document: str = "") -> bytes:
    """A CRD of so many properties, each described in words that compress as English does (about 8.5 to 1)."""
    text = f"""{document}apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.18.0
  name: {plural}.{group}
spec:
  group: {group}
  names:
    kind: {plural.capitalize()}
    listKind: {plural.capitalize()}List
    plural: {plural}
    singular: {plural[:-1]}
  scope: Namespaced
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: {plural.capitalize()} is one of the types of {group}.
        properties:
"""
    return (text + "".join(_property(plural, index) for index in range(properties)) + _TAIL).encode()


_TAIL = """        type: object
    served: true
    storage: true
    subresources:
      status: {}
"""


def _property(plural: str, index: int) -> str:
    # Digests for the parts that differ between properties; the rest repeats, as in schemas.
    word = hashlib.sha512(f"{plural}{index}".encode()).hexdigest()
    return f"""          field{index}:
            description: |-
              Field{index} says what holds for the {plural} that are selected,
              known to the member clusters as {word[:64]}.
              If it is not given, the value of {word[64:108]} is used.
              Cannot be updated.
            items:
              description: The items are looked at in order, and the first that fits is taken.
              properties:
                key:
                  description: Key is the label key that the selector applies to.
                  type: string
                operator:
                  type: string
                values:
                  items:
                    type: string
                  type: array
                  x-kubernetes-list-type: atomic
              required:
              - key
              - operator
              type: object
            type: array
"""


def patch(plural: str, group: str = "work.karmada.io") -> bytes:
    return f"""apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {plural}.{group}
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        url: "https://{{{{name}}}}.{{{{namespace}}}}.svc:443/convert"
        caBundle: "{{{{caBundle}}}}"
      conversionReviewVersions: ["v1"]
""".encode()


def members(*, properties: int = 44) -> dict[str, bytes | None]:
    """The members of a release in tar's order, None for a directory."""
    made: dict[str, bytes | None] = {"crds/": None, "crds/bases/": None}
    for group, plurals in GROUPS.items():
        folder = f"crds/bases/{group.partition('.')[0]}/"
        made[folder] = None
        made |= {f"{folder}{group}_{plural}.yaml": crd(plural, group, properties=properties) for plural in plurals}
    made["crds/kustomization.yaml"] = b"resources:\n- bases\n"
    made["crds/patches/"] = None
    made |= {f"crds/patches/{name}": patch(name.split("_")[-1].split(".")[0]) for name in PATCHES}
    return made


def small() -> dict[str, bytes | None]:
    """The members of the least tarball that is taken: one CRD, one patch."""
    return {
        "crds/": None,
        "crds/bases/": None,
        "crds/bases/work/": None,
        "crds/bases/work/work.karmada.io_works.yaml": crd("works", "work.karmada.io"),
        "crds/patches/": None,
        "crds/patches/webhook_in_works.yaml": patch("works"),
    }


def member(name: str, content: bytes | None = b"", *, kind: bytes | None = None, **more: object) -> tarfile.TarInfo:
    """A header for `tar`; a directory when the content is None."""
    info = tarfile.TarInfo(name)
    info.type = kind or (tarfile.DIRTYPE if content is None else tarfile.REGTYPE)
    info.size = len(content or b"")
    info.mtime = 1_700_000_000
    info.mode = 0o755 if content is None else 0o644
    for attribute, value in more.items():
        setattr(info, attribute, value)
    return info


def tar(entries: Iterable[tuple[tarfile.TarInfo, bytes]], *, format: int = tarfile.GNU_FORMAT) -> bytes:  # noqa: A002
    """Build a plain tar of unchanged headers; their sizes may be wrong."""
    written = io.BytesIO()
    for info, content in entries:
        written.write(_header(info, format) + content + bytes(-len(content) % 512))
    written.write(bytes(1024))
    written.write(bytes(-written.tell() % 10240))
    return written.getvalue()


def _header(info: tarfile.TarInfo, form: int) -> bytes:
    if not info.isdir() or info.name.endswith("/"):
        return info.tobuf(form, "utf-8", "surrogateescape")
    # tarfile puts a slash behind each directory of its own accord: only then is it made one.
    block = bytearray(member(info.name, b"", mtime=info.mtime, mode=info.mode).tobuf(form))
    block[156:157] = tarfile.DIRTYPE
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pack(plain: bytes) -> bytes:
    """The gzip of it, without a time, so that it is the same each time."""
    return gzip.compress(plain, mtime=0)


def build(files: Mapping[str, bytes | None] | None = None, /, **more: bytes | None) -> bytes:
    """A tarball of members by name, in their order; None makes a directory."""
    every = {**(files or {}), **more}
    return pack(tar((member(name, content), content or b"") for name, content in every.items()))


def dotted() -> bytes:
    """The least tarball as ``tar -C directory .`` makes it."""
    return build({"./": None, **{f"./{name}": body for name, body in small().items()}})


def release(*, properties: int = 44) -> bytes:
    """A tarball shaped like a real release."""
    return build(members(properties=properties))
