"""Build kube-apiserver, etcd, kube-controller-manager and, if not installed, kubectl and Helm; print their paths.

With the argument `oldest`, build the oldest kube-apiserver that fleethook supports, and print a directory for
KUBEBUILDER_ASSETS with it and etcd.

Needs only the standard library, so that make can run it with any Python. The binaries go to a directory outside the
repository whose name is a hash of all inputs. A rename creates the directory, so it is complete or absent. If KUBEBUILDER_ASSETS
is set (the convention of controller-runtime's envtest), kube-apiserver and etcd come from that directory.
kube-controller-manager comes from there, too, if present. envtest has none, so it has its own directory here.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HELM = HERE.parent / "helm"
OLDEST = HERE / "oldest"
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
NEEDED = ("etcd", "kube-apiserver")
CONTROLLER_MANAGER = "kube-controller-manager"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


def version(module: Path = HERE) -> str:
    """Return the Kubernetes version that the go.mod of a directory asks for."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (module / "go.mod").read_text())
    assert found, "go.mod does not require k8s.io/kubernetes"
    return found[1]


def _cache(kind: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "fleethook" / kind


def cache(kind: str = "controlplane", module: Path = HERE) -> Path:
    """Return the directory for the binaries of a go.mod, which may not exist yet."""
    inputs = (module / "go.mod").read_bytes() + (module / "go.sum").read_bytes() + flags(module).encode()
    return _cache(kind) / f"{version(module)}-{hashlib.sha256(inputs).hexdigest()[:12]}"


def find() -> Path | None:
    """Return the directory of the binaries, or None if they have not been built."""
    assets = os.environ.get(ASSETS_VARIABLE)
    directory = Path(assets) if assets else cache()
    return directory if all(os.access(directory / name, os.X_OK) for name in NEEDED) else None


def flags(module: Path = HERE) -> str:
    """Return the linker flags that tell Kubernetes its version, which it otherwise reads from its own build script."""
    release = version(module)
    major, minor = release.removeprefix("v").split(".")[:2]
    values = {"gitVersion": release, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def build() -> Path:
    """Build the missing programs and return their directory; exits with a message if that is impossible."""
    if os.environ.get(ASSETS_VARIABLE):
        raise SystemExit(f"{ASSETS_VARIABLE} is set, but {' and '.join(NEEDED)} are not both in that directory")
    target = cache()
    names = [*NEEDED, *(["kubectl"] if shutil.which("kubectl") is None else [])]
    _build(HERE, {name: PACKAGES[name] for name in names}, target, flags=flags(), title=version())
    return target


def find_controller_manager() -> Path | None:
    """Return the kube-controller-manager of KUBEBUILDER_ASSETS or the built one, None if there is neither."""
    assets = os.environ.get(ASSETS_VARIABLE)
    directories = [*([Path(assets)] if assets else []), cache(CONTROLLER_MANAGER)]
    programs = (directory / CONTROLLER_MANAGER for directory in directories)
    return next((program for program in programs if os.access(program, os.X_OK)), None)


def build_controller_manager() -> Path:
    """Build kube-controller-manager and return it."""
    target = cache(CONTROLLER_MANAGER)
    _build(HERE, {CONTROLLER_MANAGER: PACKAGES[CONTROLLER_MANAGER]}, target, flags=flags(), title=version())
    return target / CONTROLLER_MANAGER


def build_oldest() -> Path:
    """Build the oldest supported kube-apiserver unless it is there; return its directory, with a link to etcd."""
    target = cache(module=OLDEST)
    if not os.access(target / "kube-apiserver", os.X_OK):
        programs = {"kube-apiserver": PACKAGES["kube-apiserver"]}
        _build(OLDEST, programs, target, flags=flags(OLDEST), title=version(OLDEST))
    # Any kube-apiserver works with this etcd, whose API has version 3.
    etcd = target / "etcd"
    etcd.unlink(missing_ok=True)
    etcd.symlink_to((find() or build()) / "etcd")
    return target


def helm_cache() -> Path:
    """Return the directory for the Helm of its go.mod, which may not exist yet."""
    inputs = (HELM / "go.mod").read_bytes() + (HELM / "go.sum").read_bytes()
    return _cache("helm") / hashlib.sha256(inputs).hexdigest()[:12]


def find_helm() -> Path | None:
    """Return the installed Helm or the built one, None if there is neither."""
    installed = shutil.which("helm")
    program = Path(installed) if installed else helm_cache() / "helm"
    return program if os.access(program, os.X_OK) else None


def build_helm() -> Path:
    """Build Helm and return it."""
    _build(HELM, {"helm": "helm.sh/helm/v4/cmd/helm"}, helm_cache(), flags="-s -w", title="helm.sh/helm/v4")
    return helm_cache() / "helm"


def _build(module: Path, packages: dict[str, str], target: Path, *, flags: str, title: str) -> None:
    """Build programs of a module into a directory, which a rename creates when all are built."""
    if shutil.which("go") is None:
        raise SystemExit(
            f"building the control plane needs Go; install it, or set {ASSETS_VARIABLE} to a directory of binaries"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        for name, package in packages.items():
            print(f"building {name} ({title})", file=sys.stderr, flush=True)
            options = ["-trimpath", "-mod=readonly", "-ldflags", flags, "-o", f"{directory}/{name}"]
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""}
            subprocess.run(["go", "build", *options, package], cwd=module, check=True, env=environment)
        if target.exists():
            shutil.rmtree(target)
        Path(directory).rename(target)
        Path(directory).mkdir()  # for the context manager to remove


if __name__ == "__main__":
    if sys.argv[1:] == ["oldest"]:
        print(build_oldest())
        raise SystemExit
    print(find() or build())
    print(find_controller_manager() or build_controller_manager())
    print(find_helm() or build_helm())
