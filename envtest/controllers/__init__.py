"""Two controllers of kube-controller-manager that delete objects; each is optional."""
