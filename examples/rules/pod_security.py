"""The Pod Security Standards of Kubernetes 1.37 as rules to copy from: ``fleethook serve --rules pod_security.py``.

As for the admission that is built into kube-apiserver, the label ``pod-security.kubernetes.io/enforce`` of a namespace
says which rules its Pods follow: ``baseline``, or ``restricted``, which has all rules of both. Each function checks one
thing, so that a Pod that is older than a rule keeps working (docs/admission-rules.md). Beyond that admission, the rules
refuse workloads whose template has a Pod that they would refuse.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from fleethook.admission import Denied, validate


def of_level(*levels: str) -> Any:
    """Return a decorator for rules about Pods in namespaces of these levels."""
    label = {"key": "pod-security.kubernetes.io/enforce", "operator": "In", "values": list(levels)}
    return partial(validate, "v1", "Pod", templates=True, namespace_selector={"matchExpressions": [label]})


baseline = of_level("baseline", "restricted")
restricted = of_level("restricted")

CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
PROFILES = frozenset({"RuntimeDefault", "Localhost"})
SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_rmem", "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    }
)  # fmt: skip
VOLUMES = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    }
)  # fmt: skip
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def list_containers(pod: Any) -> Iterator[tuple[str, Any]]:
    """Yield all containers with their fields."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(pod.spec.get(kind, [])):
            yield f"spec.{kind}[{index}]", container


def list_container_contexts(pod: Any) -> Iterator[tuple[str, Any]]:
    """Yield the security contexts of all containers with their fields."""
    for field, container in list_containers(pod):
        yield f"{field}.securityContext", container.get("securityContext", {})


def list_contexts(pod: Any) -> Iterator[tuple[str, Any]]:
    """Yield the security contexts of a Pod and its containers with their fields."""
    yield "spec.securityContext", pod.spec.get("securityContext", {})
    yield from list_container_contexts(pod)


def is_windows(pod: Any) -> bool:
    """Return whether a Pod runs on Windows, where kube-apiserver refuses the fields of Linux."""
    return bool(pod.spec.get("os", {}).get("name") == "windows")


def has_own_users(pod: Any) -> bool:
    """Return whether root in a Pod is no user of its node."""
    return pod.spec.get("hostUsers") is False


@baseline()
def host_processes(pod: Any) -> None:
    """Containers of Windows are no processes of the node."""
    for field, context in list_contexts(pod):
        if context.get("windowsOptions", {}).get("hostProcess"):
            raise Denied("must not be true", field=f"{field}.windowsOptions.hostProcess")


@baseline()
def host_namespaces(pod: Any) -> None:
    """Pods do not share the namespaces of the node."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(name):
            raise Denied("must not be true", field=f"spec.{name}")


@baseline()
def privileged(pod: Any) -> None:
    """Containers are not privileged."""
    for field, context in list_container_contexts(pod):
        if context.get("privileged"):
            raise Denied("must not be true", field=f"{field}.privileged")


@baseline()
def added_capabilities(pod: Any) -> None:
    """Containers add only capabilities that container runtimes give by default."""
    for field, context in list_container_contexts(pod):
        for name in context.get("capabilities", {}).get("add", []):
            if name not in CAPABILITIES:
                raise Denied(f"must not contain {name}", field=f"{field}.capabilities.add")


@baseline()
def host_path_volumes(pod: Any) -> None:
    """Pods mount no directories of the node."""
    for index, volume in enumerate(pod.spec.get("volumes", [])):
        if "hostPath" in volume:
            raise Denied("is forbidden", field=f"spec.volumes[{index}].hostPath")


@baseline()
def host_ports(pod: Any) -> None:
    """Containers use no ports of the node."""
    for field, container in list_containers(pod):
        for index, port in enumerate(container.get("ports", [])):
            if port.get("hostPort"):
                raise Denied("is forbidden", field=f"{field}.ports[{index}].hostPort")


@baseline()
def probed_hosts(pod: Any) -> None:
    """The kubelet probes no other hosts than the Pod."""
    for field, container in list_containers(pod):
        lifecycle = container.get("lifecycle", {})
        probes = {name: container.get(name, {}) for name in ("livenessProbe", "readinessProbe", "startupProbe")}
        handlers = {f"lifecycle.{name}": lifecycle.get(name, {}) for name in ("postStart", "preStop")}
        for name, handler in (probes | handlers).items():
            for action in ("httpGet", "tcpSocket"):
                if handler.get(action, {}).get("host"):
                    raise Denied("is forbidden", field=f"{field}.{name}.{action}.host")


@baseline()
def apparmor_profile(pod: Any) -> None:
    """Nothing disables the AppArmor profile of the container runtime."""
    for field, context in list_contexts(pod):
        if "appArmorProfile" in context and context.appArmorProfile.get("type") not in PROFILES:
            raise Denied("must be RuntimeDefault or Localhost", field=f"{field}.appArmorProfile.type")
    for name, profile in pod.metadata.get("annotations", {}).items():
        is_allowed = profile in ("", "runtime/default") or profile.startswith("localhost/")
        if name.startswith(APPARMOR) and not is_allowed:
            raise Denied("must be runtime/default or localhost/…", field=f"metadata.annotations[{name}]")


@baseline()
def selinux_options(pod: Any) -> None:
    """SELinux has a type for containers, and no user or role of its own."""
    for field, context in list_contexts(pod):
        options = context.get("seLinuxOptions", {})
        if options.get("type", "") not in SELINUX_TYPES:
            raise Denied(f"must not be {options.type}", field=f"{field}.seLinuxOptions.type")
        for name in ("user", "role"):
            if options.get(name):
                raise Denied("is forbidden", field=f"{field}.seLinuxOptions.{name}")


@baseline()
def proc_mount(pod: Any) -> None:
    """The paths of /proc that container runtimes mask stay masked, unless the Pod has users of its own."""
    if not has_own_users(pod):
        proc_mount_always(pod)


@restricted()
def proc_mount_always(pod: Any) -> None:
    """The paths of /proc that container runtimes mask stay masked."""
    for field, context in list_container_contexts(pod):
        if context.get("procMount", "Default") != "Default":
            raise Denied("must be Default", field=f"{field}.procMount")


@baseline()
def seccomp_profile(pod: Any) -> None:
    """Nothing disables the seccomp profile."""
    for field, context in list_contexts(pod):
        if "seccompProfile" in context and context.seccompProfile.get("type") not in PROFILES:
            raise Denied("must be RuntimeDefault or Localhost", field=f"{field}.seccompProfile.type")


@baseline()
def sysctls(pod: Any) -> None:
    """Pods set only kernel parameters that have no effect on other Pods."""
    for index, sysctl in enumerate(pod.spec.get("securityContext", {}).get("sysctls", [])):
        if sysctl.name not in SYSCTLS:
            raise Denied(f"must not be {sysctl.name}", field=f"spec.securityContext.sysctls[{index}].name")


@restricted()
def volume_types(pod: Any) -> None:
    """Pods mount only volumes that belong to them, claims, and volumes of drivers."""
    for index, volume in enumerate(pod.spec.get("volumes", [])):
        if VOLUMES.isdisjoint(volume):
            raise Denied(f"must be one of {', '.join(sorted(VOLUMES))}", field=f"spec.volumes[{index}]")


@restricted()
def privilege_escalation(pod: Any) -> None:
    """No process gets more privileges than its parent."""
    for field, context in () if is_windows(pod) else list_container_contexts(pod):
        if context.get("allowPrivilegeEscalation") is not False:
            raise Denied("must be false", field=f"{field}.allowPrivilegeEscalation")


@restricted()
def run_as_non_root(pod: Any) -> None:
    """Containers do not run as root, unless the Pod has users of its own."""
    of_pod = pod.spec.get("securityContext", {}).get("runAsNonRoot")
    for field, context in () if has_own_users(pod) else list_contexts(pod):
        given = context.get("runAsNonRoot")
        if given is False or (given is None and not of_pod and field != "spec.securityContext"):
            raise Denied("must be true, here or in spec.securityContext", field=f"{field}.runAsNonRoot")


@restricted()
def run_as_user(pod: Any) -> None:
    """No user is root, unless the Pod has users of its own."""
    for field, context in () if has_own_users(pod) else list_contexts(pod):
        if context.get("runAsUser") == 0:
            raise Denied("must not be 0", field=f"{field}.runAsUser")


@restricted()
def needs_seccomp_profile(pod: Any) -> None:
    """Containers have a seccomp profile."""
    of_pod = pod.spec.get("securityContext", {}).get("seccompProfile", {})
    for field, context in () if is_windows(pod) else list_container_contexts(pod):
        if context.get("seccompProfile", of_pod).get("type") not in PROFILES:
            text = "must be RuntimeDefault or Localhost, here or in spec.securityContext"
            raise Denied(text, field=f"{field}.seccompProfile.type")


@restricted()
def dropped_capabilities(pod: Any) -> None:
    """Containers drop all capabilities, and add only one for the ports below 1024."""
    for field, context in () if is_windows(pod) else list_container_contexts(pod):
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            raise Denied("must contain ALL", field=f"{field}.capabilities.drop")
        for name in capabilities.get("add", []):
            if name != "NET_BIND_SERVICE":
                raise Denied(f"must not contain {name}", field=f"{field}.capabilities.add")
