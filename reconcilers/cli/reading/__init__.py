"""From manifests to typed objects: every fault is one sentence with its place, and stops no other.

sources.py     files, folders, standard input
scalars.py     what an unquoted YAML word means to Kubernetes
yamltext.py    YAML documents with the line of every value
jsontext.py    JSON documents
objects.py     documents to objects: lists opened, kinds told apart
kinds.py       the kinds that are known, and the nearest name of one that is not
metadata.py    names, labels, timestamps
schema.py      an object against the schema of its kind
rules.py       what a schema's CEL rules say, without a CEL engine
manifests.py   all of it: paths in, typed objects and findings out
"""
