"""metal3's IPPools, IPClaims and IPAddresses, and IPAddressClaims that name an IPPool.

`docs/design/metal3.md` has the mapping to the promise engine. Read in this order: `api`,
`entries`, `claimformats`, `caches`, `taking`, `granting`, `pools`, `claims`.
"""
