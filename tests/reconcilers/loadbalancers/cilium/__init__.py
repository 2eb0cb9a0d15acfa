"""Tests of Cilium LB-IPAM behind the port of load balancers."""
