"""A window that shows what comes through stdin: a program of its own, which loads pygame and nothing of Spreeze. It
ends when it is closed, or when whoever writes is gone.

    | width 4 | height 4 | bytes of the caption 4 | caption | height x width x 3 |      one picture after the other
"""

from __future__ import annotations

import os
import select
import struct
from typing import IO, Any

_HEAD = struct.Struct("=III")
_ANSWER_EVERY_S = 0.05


def write_picture(stream: IO[bytes], picture: Any, caption: str) -> None:
    """picture (H, W, 3) uint8, contiguous. Raises OSError where the window is gone."""
    height, width = picture.shape[:2]
    text = caption.encode()
    stream.write(_HEAD.pack(width, height, len(text)) + text)
    stream.write(picture.data.cast("B"))
    stream.flush()


def main() -> None:
    import pygame

    pygame.display.init()
    screen: Any = None
    while screen is None or not _closed(pygame.event.get()):
        if not select.select([0], [], [], _ANSWER_EVERY_S)[0]:
            continue
        head = _read(_HEAD.size)
        if head is None:
            return
        width, height, length = _HEAD.unpack(head)
        caption, data = _read(length), _read(width * height * 3)
        if caption is None or data is None:
            return
        if screen is None:
            screen = pygame.display.set_mode((width, height), pygame.RESIZABLE)
        pygame.display.set_caption(caption.decode(errors="replace"))
        picture = pygame.image.frombuffer(data, (width, height), "RGB")
        screen.blit(pygame.transform.smoothscale(picture, screen.get_size()), (0, 0))
        pygame.display.flip()


def _closed(events: list[Any]) -> bool:
    import pygame

    keys = (pygame.K_ESCAPE, pygame.K_q)
    return any(e.type == pygame.QUIT or (e.type == pygame.KEYDOWN and e.key in keys) for e in events)


def _read(count: int) -> bytes | None:
    """None at the end of the stream."""
    data = bytearray()
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


if __name__ == "__main__":
    main()
