"""Tests of the structural schemas.

`recorded/` holds answers of kube-apiserver v1.36.2 to schemas and objects made for this purpose,
and `tests/data/transcripts` its answers to whole scenarios: both are the yardstick, not our
opinion.
"""
