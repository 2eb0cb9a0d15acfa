"""Reads manifests to typed objects. Every fault is one sentence with its place, and stops nothing.

yamltext.py    parses YAML and JSON documents, with the line of every value
objects.py     reads files, folders and standard input to objects; opens lists; tells kinds apart
schema.py      validates an object against the schema of its kind
manifests.py   does all of it: paths in, typed objects and findings out
findings.py    findings, and their places
"""
