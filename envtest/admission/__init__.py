"""Admission webhooks: which of them a write calls, their requests, and their answers."""

from envtest.admission.webhooks import Webhooks

__all__ = ["Webhooks"]
