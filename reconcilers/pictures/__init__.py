"""One picture of a pool for pools of all kinds: what it offers, who holds what, and what waits.

Each kind of pools produces a `PoolPicture` in its own package. Tables, maps, the live page, gauges
and checks read pictures, and know nothing else of a kind.
"""
