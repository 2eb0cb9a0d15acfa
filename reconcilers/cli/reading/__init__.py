"""From manifests to typed objects: every fault is one sentence with its place, and stops no other.

yamltext.py    YAML and JSON documents with the line of every value
objects.py     files, folders, standard input to objects: lists opened, kinds distinguished
schema.py      an object against the schema of its kind
manifests.py   all of it: paths in, typed objects and findings out
findings.py    what was found, and where
"""
