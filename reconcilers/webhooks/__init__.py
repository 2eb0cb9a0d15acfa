"""Admission webhooks: what is refused before it is stored, and what people are warned of.

    networkpool, ipallocation, tenantcluster, providerconfig
                  the rules of one kind each: pure functions of objects
    validators    reads the objects that the rules need: from caches, live where these may lag
    admission     where each kind is validated, as the manifests say it; from a request of the API
                  server to the rules and back; what is never validated

Nothing here decides by labels, and nothing here is relied upon: the reconcilers validate the same
specs by the same functions, and hold every promise without webhooks.
"""
