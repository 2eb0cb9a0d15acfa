"""Three operators on `controller`, as a person would write them.

examples/kopf has the same for kopf; docs/from-kopf.md shows them side by side.
"""
