"""The reasons of the conditions that are about the room in pools, and what each says."""

TIER_REASONS = {
    "UtilizationAboveThreshold": "True: so much, or more, is held",
    "UtilizationBelowThreshold": "False: less is held",
    "NoCapacity": "False: the pool has no allocatable address, or its spec is wrong",
}
UNMET = {
    "PoolExhausted": "False: no pool of the ProviderConfig has that many addresses in a row",
    "PinnedRangeConflict": "False: a pinned range touches one that is held or reserved",
    "OutOfRange": "False: a pinned range lies outside what the pool hands out",
    "InvalidRequest": "False: the request can never be served",
    "PoolNotDualStack": "False: both families are required, and the pool has one",
    "FamilyNotConfigured": "False: a family is named that the pool does not have",
}
