"""Admission webhooks: judging and amending writes before the API server stores them."""

from controller.webhooks.answers import Allowed, Answer, Denied, Patched
from controller.webhooks.review import AdmissionRequest
from controller.webhooks.webhook import Handler, Webhook

__all__ = [
    "AdmissionRequest",
    "Allowed",
    "Answer",
    "Denied",
    "Handler",
    "Patched",
    "Webhook",
]
