"""Rules of custom resources (`x-kubernetes-validations`)."""
