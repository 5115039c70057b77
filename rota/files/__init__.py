"""Tables in files, cell by cell: whatever is wrong with one is said once, with file, line, field and value."""
