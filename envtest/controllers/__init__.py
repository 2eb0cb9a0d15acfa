"""The two controllers of kube-controller-manager that objects notice most; each is optional."""
