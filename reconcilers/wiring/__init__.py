"""The composition root: which controller watches what, and which parts each is given.

assembling   all of it, put on one manager, with what has no queue: orphans, gauges, webhooks
controllers  the four controllers, their watches, and which changes enqueue which keys
shared       what every part is given: informers, client, events, settings
"""

from reconcilers.wiring.assembling import add_page, assemble

__all__ = ["add_page", "assemble"]
