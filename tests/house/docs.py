"""`make docs`: writes the generated parts of the pages anew."""

import sys

from tests.house.readme import PAGES, ROOT, refreshed


def main() -> None:
    """Refresh every page; say which changed."""
    for name in PAGES:
        path = ROOT / name
        before = path.read_text()
        after = refreshed(before)
        if after != before:
            path.write_text(after)
            sys.stdout.write(f"{name} written\n")


if __name__ == "__main__":
    main()
