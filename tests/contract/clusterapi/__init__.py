"""Cluster API's IPAM contract: the whole product as a process, on either server."""
