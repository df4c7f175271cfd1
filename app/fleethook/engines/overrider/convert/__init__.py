"""Conversion of YurtAppSets v1alpha1 and YurtAppDaemons, with their overriders, to YurtAppSets v1beta1 with tweaks.

`fleethook.engines.overrider.convert.conversion.convert` is the entry point. A conversion is correct if every node pool
has the same rendered workload before and after it. Otherwise the report names the pool and the path of each difference.
"""
