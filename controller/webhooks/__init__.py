"""Webhooks: validating and changing writes before they are stored; converting between versions."""

from controller.webhooks.answers import Allowed, Answer, Denied, Patched
from controller.webhooks.conversion import Conversion, Spoke
from controller.webhooks.review import AdmissionRequest
from controller.webhooks.webhook import Handler, Webhook

__all__ = [
    "AdmissionRequest",
    "Allowed",
    "Answer",
    "Conversion",
    "Denied",
    "Handler",
    "Patched",
    "Spoke",
    "Webhook",
]
