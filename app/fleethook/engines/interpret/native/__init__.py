"""Native interpreters of Kubernetes' own kinds."""
