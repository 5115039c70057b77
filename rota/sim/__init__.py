"""Driver one: virtual time. The same core as everywhere else, against machines that are modelled."""
