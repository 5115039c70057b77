"""TLS of the server: a certificate and its key, read again when the files change."""

import os
import ssl
from pathlib import Path

from rota.errors import OptionError
from rota.folders import check_file


class Certificate:
    """A certificate chain and its private key in PEM files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raise OptionError if the files are not a certificate and its key, or if others can read the key."""
        self._files = certificate, key
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        check_file(key)
        try:
            if key.stat().st_mode & 0o077:
                raise OptionError("can be read by other users.", field="--tls-key", value=str(key), hint=f"chmod 600 {key}")
            self._seen = self._changed()
            self.context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as problem:
            why = getattr(problem, "strerror", None) or getattr(problem, "reason", None) or "is not a certificate and its key"
            hint = "--tls-cert CHAIN.pem --tls-key KEY.pem"
            raise OptionError(f"{why}.", field="--tls-cert", value=str(certificate), hint=hint) from None

    def refresh(self) -> None:
        """Use renewed files for new connections. Files that cannot be read, or do not fit together yet, are read again later."""
        try:
            seen = self._changed()
            if seen != self._seen:
                self.context.load_cert_chain(*self._files)
                self._seen = seen
        except (OSError, ssl.SSLError):
            return

    def _changed(self) -> tuple[tuple[int, int], ...]:
        return tuple((facts.st_ino, facts.st_mtime_ns) for facts in map(os.stat, self._files))
