"""The reasons of the conditions of Cluster API's claims and their pools, and what each says."""

CLAIM = {
    "AddressAllocated": "True: the message has the address, and its pool; it is the claim's record"
    " of what it holds",
    "PoolNotReady": "False: the pool does not exist, is being deleted, or begins to serve",
    "PoolExhausted": "False: the pool has no free address; the oldest claim gets the next one",
    "AllocationFailed": "False: an IPAddress of the claim's name is in the way, or could not be"
    " made; the message says why",
}
POOL = {
    "Ready": "True: claims are served",
    "NoCapacity": "False: everything in the pool is excluded or reserved",
    "ValidationFailed": "False: the spec cannot be read; the message says where",
    "Deleting": "False: the pool waits for its IPAddresses to be released",
}
OVERLAP = {
    "PoolsOverlap": "True: the message names them, and counts what both may hand out",
    "NoOverlap": "False",
}
POOL_KINDS = (
    "InClusterIPPool",
    "GlobalInClusterIPPool",
    "InClusterPrefixPool",
    "GlobalInClusterPrefixPool",
)
