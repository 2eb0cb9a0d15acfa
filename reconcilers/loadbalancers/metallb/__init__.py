"""What we write into a tenant's MetalLB, keep there against edits, and know that it has read.

projection.py     what MetalLB in a tenant should hold, and writing it
advertisement.py  the L2Advertisement, without which no node announces the addresses
corrections.py    manual edits: distinguished from own changes, written back, reported
uptake.py         whether MetalLB has read its pools as they are stored
markerrecord.py   that the pool which shows this is about to be created, noted before
reading.py        whether MetalLB runs
installation/     it is installed where it is missing, if there is a bundle
"""
