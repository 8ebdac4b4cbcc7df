"""A file that is, after a crash at any moment, either the old one or the new one."""

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Put `text` in the place of the file; when this returns, it is on the disk."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
