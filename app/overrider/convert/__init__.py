"""Conversion of YurtAppSets v1alpha1 and YurtAppDaemons, with their overriders, to YurtAppSets v1beta1 with tweaks.

`app.overrider.convert.conversion.convert` is the entry. A conversion is correct if rendering gives the same workload in
every node pool before and after it, or if its report names the pool and the path of the difference.
"""
