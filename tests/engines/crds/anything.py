"""Documents of any shape, many of them close to a valid ``crdTarball``."""

from hypothesis import strategies as st

URL = "https://h/crds.tar.gz"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
NAMES = st.sampled_from(
    ["crdDownloadPolicy", "httpSource", "localSource", "version", "url", "proxy", "proxyURL",
     "secretRef", "caSecretRef", "noProxy", "sha256", "mirrors", "caBundle", "timeoutSeconds", "maxBytes", "path",
     "name", "namespace", "key", "components", "karmadaWebhook", "imageTag"]
)  # fmt: skip
VALUES = JSON | st.sampled_from(
    [URL, "http://u:p@h/", "Never", "v1.10.0", "a" * 64, "/a", 5, "", [URL], "http://h:" + "9" * 5000, {"name": "a"}, {"imageTag": "v1.9.0"},
     {"path": "/a"}, {"url": URL}, "Sometimes"]
)  # fmt: skip
TARBALLS = VALUES | st.recursive(VALUES, lambda inner: st.dictionaries(NAMES, inner, max_size=8), max_leaves=20)
