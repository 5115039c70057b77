"""The nouns: frozen values and read-only columns that every other room speaks in. No input, no output, no clock.

Instants on the scheduler's clock end in `_s`, lengths of time in `_seconds`.
"""
