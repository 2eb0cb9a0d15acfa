"""Admission webhooks: questions, answers, the server, its certificate."""
