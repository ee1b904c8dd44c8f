"""A certificate of its own for each node: what clients of a TLS node trust.

Made by `keytool`, which comes with Java; good for a few days, since such nodes do not live longer.
"""

import subprocess
from pathlib import Path

from cvs.embedded.java import java
from cvs.errors import MissingEnvironmentError

KEY_STORE_PASSWORD = "node-of-a-test"  # noqa: S105 -- because it guards a key that is thrown away
DAYS = 7


def key_store(conf: Path) -> Path:
    """Say where a node's key is."""
    return conf / "node.p12"


def ca_file(conf: Path) -> Path:
    """Say where the certificate is that a client of the node must trust."""
    return conf / "node.pem"


def make_certificate(conf: Path, address: str) -> None:
    """Make a key and a certificate that names the node's address, unless they are there."""
    if ca_file(conf).exists():
        return
    store = ("-keystore", str(key_store(conf)), "-storetype", "PKCS12", "-storepass", KEY_STORE_PASSWORD)
    made = ("-keyalg", "EC", "-dname", "CN=cvs node", "-ext", f"san=ip:{address}", "-validity", str(DAYS))
    _keytool("-genkeypair", "-alias", "node", *made, *store)
    _keytool("-exportcert", "-rfc", "-alias", "node", "-file", str(ca_file(conf)), *store)


def _keytool(*words: str) -> None:
    tool = Path(java()).resolve().parent / "keytool"
    done = subprocess.run([str(tool), *words], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise MissingEnvironmentError(f"keytool failed: {done.stdout.strip()[:300]}", where=str(tool))
