"""A daemon as the world sees it: the HTTP API and who may use it."""
