"""The doctor: checks a machine and a home without changing anything, and reports findings and next steps."""
