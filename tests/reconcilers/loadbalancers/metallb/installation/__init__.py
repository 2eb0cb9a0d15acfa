"""Tests of the installation of MetalLB."""
