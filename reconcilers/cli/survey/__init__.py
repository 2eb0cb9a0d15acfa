"""What a cluster's addresses look like now: read once, worked out, shown.

objects.py    the objects of a cluster, or of files that were saved from one
extents.py    a pool's whole space as one ordered list: who holds what, and the gaps between
usage.py      how full each pool is
drawing.py    a pool's space for a terminal
svg.py        the same as a picture
page.py       all pools as one HTML page that needs nothing else
audit.py      what is wrong: overlaps, orphans, ranges outside, statuses that drifted
repair.py     carries out what a reviewed report of the audit says
progress.py   tells that something is going on
forms.py      -o: what each command prints for programs
"""
