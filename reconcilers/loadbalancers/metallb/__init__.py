"""What we write into a tenant's MetalLB, keep there against edits, and know that it has read.

adapter.py        all of it behind the port of load balancers
projection.py     what MetalLB in a tenant should hold, and writing it
advertisement.py  the L2Advertisement, without which no node announces the addresses
keptstate.py      what we keep there, to tell manual edits from own changes
services.py       which Services MetalLB could give an address of ours
uptake.py         whether MetalLB has read its pools as they are stored
reading.py        whether MetalLB runs
installation/     it is installed where it is missing, if there is a bundle
"""
