"""Rules of custom resources (`x-kubernetes-validations`), written in CEL.

The library parses: grammar, macros and syntax errors are its own, and they are cel-go's to the
letter. Checking and evaluation are ours. The library has no types made from a schema, so it would
let `self.typo` pass, and it evaluates only values of its own: the whole object would be copied
into it for every rule, with times and durations refused. Here a rule is typed against the schema
(which is what the server's messages come from) and reads the decoded JSON in place.
"""
