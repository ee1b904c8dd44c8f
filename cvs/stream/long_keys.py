"""Keys of DELTA that are longer than Cassandra's keys may be: cut and told apart by a digest, whole beside the image.

A base row's partition and clustering may have 65,535 bytes each; DELTA frames both into one clustering key, which may
have as many in all. What begins alike is stored alike, so reads by a prefix find long keys too.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from cvs.programs.stage_codec import NAME_MAX, beyond

DIGEST_BYTES = 32


def stored_key(key: bytes) -> bytes:
    """Return the key under which an image lies: itself, unless it is too long."""
    return key if len(key) <= NAME_MAX else key[:NAME_MAX] + blake2b(key, digest_size=DIGEST_BYTES).digest()


def stored_image(key: bytes, image: bytes) -> bytes:
    """Return what lies under a key: the image, before it the rest of a key that is too long."""
    rest = key[NAME_MAX:]
    return len(rest).to_bytes(4, "big") + rest + image if rest else image


def slice_of(prefix: bytes) -> tuple[bytes, bytes]:
    """Return between which keys everything with a prefix is stored; long ones may bring more."""
    begin = prefix[:NAME_MAX]
    return begin, beyond(begin)


def images_of(rows: Iterable[tuple[bytes, bytes]], prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Return what was stored as keys and images; of long keys those with a prefix, since a slice may bring others."""
    for key, image in rows:
        if len(key) <= NAME_MAX:
            yield key, image
            continue
        end = 4 + int.from_bytes(image[:4], "big")
        whole = key[:NAME_MAX] + image[4:end]
        if whole.startswith(prefix):
            yield whole, image[end:]
