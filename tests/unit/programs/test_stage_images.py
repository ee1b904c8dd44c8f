"""What a driver remembers of DELTA: which reads are sent, which are answered, and when nothing is known any more."""

from typing import Any

from cvs.programs.stage_delta import PutImages, ReadImages
from cvs.programs.stage_images import RememberedImages


class Door:
    """Holds images of one bucket and keeps what it was asked."""

    def __init__(self, **images: bytes) -> None:
        self.images = {key.encode(): image for key, image in images.items()}
        self.rounds: list[list[Any]] = []

    def __call__(self, requests: list[Any]) -> list[Any]:
        self.rounds.append(requests)
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        if isinstance(request, PutImages):
            for key, image in request.images:
                self.images.pop(key, None)
                if image is not None:
                    self.images[key] = image
            return None
        if not isinstance(request, ReadImages):
            return request
        wanted = [k for k in self.images if k in request.keys or k.startswith(request.prefixes or (b"\0",))]
        return {key: self.images[key] for key in wanted}

    def asked(self) -> list[bytes]:
        """Return the keys that were asked for since this was asked."""
        rounds, self.rounds = self.rounds, []
        return [k for requests in rounds for it in requests if isinstance(it, ReadImages) for k in it.keys]


def read(*keys: bytes, bucket: int = 0, prefixes: tuple[bytes, ...] = ()) -> ReadImages:
    return ReadImages(table="d", bucket=bucket, keys=keys, prefixes=prefixes)


def put(*images: tuple[bytes, bytes | None], bucket: int = 0) -> PutImages:
    return PutImages(table="d", bucket=bucket, images=images, write_time=1)


def test_only_what_is_not_known_is_asked_and_answers_stand_where_they_were_asked() -> None:
    door = Door(a=b"1", b=b"2", c=b"3")
    remembered = RememberedImages(door)
    assert remembered([read(b"a", b"none")]) == [{b"a": b"1"}]
    assert door.asked() == [b"a", b"none"]
    answers = remembered([read(b"a"), "other", read(b"a", b"b"), put((b"c", b"4")), read(b"c")])
    assert answers == [{b"a": b"1"}, "other", {b"a": b"1", b"b": b"2"}, None, {b"c": b"4"}]
    assert door.asked() == [b"b", b"c"]
    assert remembered.found == 2
    assert remembered([read(b"a", b"b", b"c")]) == [{b"a": b"1", b"b": b"2", b"c": b"4"}]
    assert door.rounds == [], "all of it is known: nothing is sent"
    assert remembered.found == 5


def test_places_are_told_apart_by_bucket_and_table() -> None:
    door = Door(a=b"1")
    remembered = RememberedImages(door)
    remembered([read(b"a")])
    remembered([read(b"a", bucket=1), ReadImages(table="e", bucket=0, keys=(b"a",))])
    assert door.asked() == [b"a"] * 3


def test_what_is_read_by_prefix_is_asked_for_and_not_remembered() -> None:
    """All of a partition is asked for: which of its rows are known does not help."""
    door = Door(a=b"1", pa=b"2", pb=b"3")
    remembered = RememberedImages(door)
    remembered([read(b"a")])
    for _ in range(2):
        assert remembered([read(b"a", prefixes=(b"p",))]) == [{b"a": b"1", b"pa": b"2", b"pb": b"3"}]
    assert door.asked() == [b"a"]
    assert remembered([read(prefixes=(b"p",))]) == [{b"pa": b"2", b"pb": b"3"}]
    remembered([read(b"pa")])
    assert door.asked() == [b"pa"]


def test_notes_of_expiry_and_what_was_deleted_are_not_remembered() -> None:
    door = Door(a=b"1")
    remembered = RememberedImages(door)
    remembered([put((b"x", b"note"), bucket=-1), put((b"a", None))])
    assert remembered([read(b"x", bucket=-1), read(b"a")]) == [{b"x": b"note"}, {}]
    assert door.asked() == [b"x", b"a"]


def test_only_an_epoch_after_one_that_this_driver_ran_whole_finds_anything() -> None:
    door = Door(a=b"1")
    remembered = RememberedImages(door)

    def sent(epoch: int) -> bool:
        remembered.begin(epoch)
        remembered([read(b"a")])
        return door.asked() == [b"a"]

    assert sent(1)
    assert sent(1), "it died half-way before"
    remembered.finished(1)
    assert not sent(2)
    assert sent(3), "epoch 2 did not end here"
    remembered.finished(3)
    assert sent(5), "epoch 4 ran elsewhere"
    remembered.finished(5)
    remembered.forget()
    assert sent(6)
    remembered.finished(6)
    assert not sent(7)


def test_what_was_used_last_is_kept_and_no_more_than_the_bound() -> None:
    door = Door(a=b"1234", b=b"123456", c=b"1")
    remembered = RememberedImages(door, bytes_kept=10)
    for key in (b"a", b"b", b"a"):
        remembered([read(key)])
    assert door.asked() == [b"a", b"b"], "both are kept: just as many bytes as may be"
    remembered([read(b"c")])
    remembered([read(b"a"), read(b"c")])
    assert door.asked() == [b"c"]
    remembered([read(b"b")])
    assert door.asked() == [b"b"], "the longest unused went"


def test_an_image_that_is_replaced_counts_once() -> None:
    door = Door()
    remembered = RememberedImages(door, bytes_kept=10)
    remembered([put((b"a", b"1234567"))])
    remembered([put((b"a", b"12345"))])
    remembered([put((b"b", b"12345"))])
    assert remembered([read(b"a", b"b")]) == [{b"a": b"12345", b"b": b"12345"}]
    assert door.asked() == []
    remembered([put((b"a", None))])
    remembered([put((b"c", b"12345"))])
    remembered([read(b"b", b"c")])
    assert door.asked() == []
    remembered.forget()
    remembered([put((b"a", b"1234567890"))])
    remembered([read(b"a")])
    assert door.asked() == [], "what was forgotten weighs nothing"
