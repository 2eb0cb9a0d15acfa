"""What a cluster's addresses look like now: worked out of its objects, drawn.

objects.py      the objects that this is about, and reading all of them from a cluster
extents.py      a pool's whole space as one ordered list: who holds what, the gaps, how full it is
poolpictures.py pools of all kinds, each with all its holders: one picture, one set of figures
tenants.py      what each tenant holds
audit.py        what is wrong: overlaps, orphans, ranges outside, statuses that drifted
styles.py       how a state of addresses is shown: colours, letters, words
integers.py     counts too large for most programs that read JSON
looks.py        colours and patterns by which tenants are told apart
svg.py          a pool's space as SVG
pagedata.py     what the page shows, as plain JSON: the one module of the page that knows models
pagemessages.py what a reader of one state of the page lacks of another
page.py         all pools as one HTML page, made of the files in web/
"""
