"""Admission webhooks: they refuse writes before they are stored, and warn about others.

    networkpool, ipallocation, tenantcluster, providerconfig
                  the rules of one kind that read other objects: pure functions of them
    validators    reads the objects that the rules need: from caches, live where these may lag
    admission     the path of each kind, as in the manifests; from a request of the API server to
                  the rules and back; the writes that are never validated

The rules about an object by itself are in reconcilers/specrules/. Nothing here decides by labels.
Reconcilers do not rely on webhooks: they apply the same rules, and no address is handed out twice
without webhooks either.
"""
