"""The API reference, API.md, made of the models and of the words that the controllers write.

vocabulary.py   conditions, reasons, events, labels, annotations, finalizers, and what each means
markdown.py     the page: the CRDs' fields and rules, and the vocabulary
"""
