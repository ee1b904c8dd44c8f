"""Images of DELTA that this driver read or put itself in the last epoch need not be read again (H8).

An image is a function of (state as of the epoch before, what is pinned), whoever runs the epoch. So what stands here
after an epoch that *this* driver carried out whole is what a read in the next one would find, also if another driver
ran the same epoch, or has begun the next. After anything else nothing is known, and nothing is kept:

    an epoch this driver did not run, or ran in tasks      DELTA changed without us
    an epoch that ended half-way here                      what was read is older than what others put since

Only reads are answered from here; every put is sent, since a replay must put again.
"""

from collections.abc import Callable
from typing import Any

from cvs.programs.stage_delta import PutImages, ReadImages

BYTES_KEPT = 16 * 2**20
"""Images kept, by their size; as objects of Python they take about three times that."""
NO_EPOCH = -1
"""Before no epoch at all: 0 is before the first one, of which a driver may have run half."""

Place = tuple[str, int, bytes]


class RememberedImages:
    """A door that answers reads of images from memory where it can."""

    def __init__(self, door: Callable[[list[Any]], list[Any]], *, bytes_kept: int = BYTES_KEPT) -> None:
        self._door = door
        self._bytes_kept = bytes_kept
        self._images: dict[Place, bytes] = {}  # the longest unused first
        self._size = 0
        self._as_of = NO_EPOCH
        self.found = 0

    def begin(self, epoch: int) -> None:
        """Say that this driver runs an epoch; what is remembered holds only if it ran the one before."""
        if self._as_of != epoch - 1:
            self.forget()
        self._as_of = NO_EPOCH  # until the epoch ran whole

    def finished(self, epoch: int) -> None:
        """Say that every request of the epoch was answered."""
        self._as_of = epoch

    def forget(self) -> None:
        """Remember nothing: epochs ran elsewhere."""
        self._images.clear()
        self._size, self._as_of = 0, NO_EPOCH

    def __call__(self, requests: list[Any]) -> list[Any]:
        """Carry out a round; what is known of the images asked for is not asked again."""
        known: list[dict[bytes, bytes]] = []
        sent: list[tuple[int, Any]] = []
        for index, request in enumerate(requests):
            known.append({})
            if isinstance(request, ReadImages) and request.keys:
                known[index], request = self._known(request)
                if not request.keys and not request.prefixes:
                    continue
            sent.append((index, request))
        answers: list[Any] = list(known)
        carried = self._door([request for _, request in sent]) if sent else []
        for (index, request), answer in zip(sent, carried, strict=True):
            if isinstance(request, ReadImages):
                self._note(request.table, request.bucket, answer.items() if not request.prefixes else ())
                answers[index] = answer | known[index]
            else:
                answers[index] = answer
                if isinstance(request, PutImages):
                    self._note(request.table, request.bucket, request.images)
        return answers

    def _known(self, request: ReadImages) -> tuple[dict[bytes, bytes], ReadImages]:
        """Split a read into what is known and what must be asked for."""
        known: dict[bytes, bytes] = {}
        asked = []
        for key in request.keys:
            place = (request.table, request.bucket, key)
            image = self._images.pop(place, None)
            if image is None:
                asked.append(key)
            else:
                known[key] = self._images[place] = image  # because what was used last goes last
        self.found += len(known)
        rest = ReadImages(
            table=request.table, bucket=request.bucket, keys=tuple(asked), prefixes=request.prefixes
        )
        return known, rest

    def _note(self, table: str, bucket: int, images: Any) -> None:
        if bucket < 0:  # notes of expiry
            return
        for key, image in images:
            place = (table, bucket, key)
            self._size -= len(self._images.pop(place, b""))
            if image is not None:
                self._size += len(image)
                self._images[place] = image
        while self._size > self._bytes_kept:
            self._size -= len(self._images.pop(next(iter(self._images))))
