"""Slow plain versions, written from the definitions, that the compiled code must match."""
