"""``spec.crdTarball`` of ``Karmada`` instances: validation, defaults, and the source of the tarball.

Upstream: operator/pkg/apis/operator/v1alpha1/type.go (v1.17.1).
"""
