"""The doctor: looks at a machine and a home, changes nothing, and says what it found and what to do next."""
