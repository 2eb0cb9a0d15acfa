"""CRDs at work: versions, conversion, changes while objects exist, scales, rules, their end."""
