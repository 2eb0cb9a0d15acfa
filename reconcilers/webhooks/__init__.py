"""Admission webhooks: what is refused before it is stored, and what people are warned of.

    networkpool, ipallocation, tenantcluster, providerconfig
                  the rules of one kind that read other objects: pure functions of them
    validators    reads the objects that the rules need: from caches, live where these may lag
    admission     where each kind is validated, as the manifests say it; from a request of the API
                  server to the rules and back; what is never validated

What is wrong in an object by itself is in reconcilers/specrules/. Nothing here decides by labels,
and nothing here is relied upon: the reconcilers apply the same rules, and hold every promise
without webhooks.
"""
