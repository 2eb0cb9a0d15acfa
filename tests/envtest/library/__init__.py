"""Custom resources as the published library behind kube-apiserver answers for them."""
