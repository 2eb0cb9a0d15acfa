"""The API: four kinds as dataclasses, the names they use, and the CRDs made of them.

One definition per kind. Pydantic gives the schema that the CRDs are generated from, and that the
command line holds manifests against; msgspec decodes the same classes straight from the API
server's bytes, which is an order of magnitude cheaper. Field names are the API's own. API.md is
made of them too: reference.py writes it, vocabulary.py says what the controllers' words mean.
"""
