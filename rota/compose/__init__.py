"""Conversion of names, files and presets into values. No other room knows the names of policies."""
