"""Measurements become beliefs."""
