"""The rules of specs, beside their models: what is wrong in an object by itself. Pure functions.

verdict.py         what rules say: causes, warnings, and the fields they are about
poolspecs.py       NetworkPools
requestspecs.py    IPAllocations
providerspecs.py   ProviderConfigs
tenantspecs.py     TenantClusters
poolnamespaces.py  in which namespaces pools and providers count

The webhooks, the reconcilers and `plan` apply these rules. The CRDs apply those that CEL can
express.
Rules that read other objects are in reconcilers/webhooks/.
"""
