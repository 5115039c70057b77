"""Reproductions of papers: their experiments, their claims, and a page that shows both."""
