"""The chapters of the story: what administrators and tenants do, and what must come of it.

tenants     pools, providers, a static tenant; an elastic one that grows and shrinks
pools       the next pool by priority, pinned ranges, several ranges, waiting and being served
admission   what is refused before it is stored, and what is warned of
troubles    a tenant without MetalLB, one that never answers, a leader that is lost
ending      everything is given back, and the books balance
"""
