"""Pictures and audits of a cluster's addresses, computed from its current objects.

objects.py      all objects of a cluster that the other modules need, and reading them
poolpictures.py pools of all kinds, each with all its holders: one picture, one set of figures
tenants.py      the addresses of each tenant
audit.py        faults: overlaps, orphans, ranges outside of pools, statuses that drifted
adoption.py     changes when butler-ipam takes over from another controller
styles.py       letters, colours and words for the states of addresses
integers.py     integers that are too large for most programs that read JSON
looks.py        colours and patterns that distinguish tenants
svg.py          a pool's space as SVG
pagedata.py     the data of the page as plain JSON: the one module of the page that knows models
pagemessages.py messages with the changes from one state of the page to another
page.py         all pools as one HTML page, built of the files in web/
"""
