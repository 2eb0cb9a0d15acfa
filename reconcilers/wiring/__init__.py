"""The composition root: which objects each controller watches, and the parts that it is built of.

assembling     the four controllers, the collector of orphans, gauges and webhooks on one manager
controllers    the four controllers, their watches, and which changes enqueue which keys
integrations   controllers and webhooks of the integrations; loaded only where one is on
loadbalancers  the load balancers that tenants may have
offline        the controllers for `plan`, without tenants
page           the page of addresses; loaded only where it is served
shared         the objects that every part is built with: informers, client, events, settings
tenants        the reconciler of TenantClusters and its collaborators
"""

from reconcilers.wiring.assembling import assemble

__all__ = ["assemble"]
