"""Tables and YAML in files, cell by cell. Every problem is reported once, with file, line, field and value."""
