"""Admission webhooks: who is asked about a write, how, and what becomes of the answer."""

from envtest.admission.webhooks import Webhooks

__all__ = ["Webhooks"]
