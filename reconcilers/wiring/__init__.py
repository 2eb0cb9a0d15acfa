"""The composition root: which controller watches what, and which parts each is given.

assembling   all of it, put on one manager, with what has no queue: orphans, gauges, webhooks
controllers  the four controllers, their watches, and which changes enqueue which keys
integrations what the integrations add; loaded only where one is on
page         the page of addresses; loaded only where it is served
shared       what every part is given: informers, client, events, settings
"""

from reconcilers.wiring.assembling import assemble

__all__ = ["assemble"]
