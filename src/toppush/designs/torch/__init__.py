"""Rows that torch holds, on any device; nothing else imports torch."""

from toppush.designs.torch.rows import place

__all__ = ["place"]
