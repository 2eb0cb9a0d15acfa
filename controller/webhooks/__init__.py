"""Admission webhooks: judging and amending writes before the API server stores them."""

from controller.webhooks.answers import Allowed, Answer, Denied, Patched, PatchOperation
from controller.webhooks.review import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    Operation,
    UserInfo,
)
from controller.webhooks.webhook import Handler, Webhook

__all__ = [
    "AdmissionRequest",
    "Allowed",
    "Answer",
    "Denied",
    "GroupVersionKind",
    "GroupVersionResource",
    "Handler",
    "Operation",
    "PatchOperation",
    "Patched",
    "UserInfo",
    "Webhook",
]
