"""Tests of the manifests, the chart and the guides that apply them."""
