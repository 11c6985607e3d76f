"""What goes from one place to another in an update, packed into one copy.

    source's work        copier                   target's work
    pack: -> outbox      outbox --copy--> landing      take: landing -> inbox, which the rest of the work reads

The copier is a stream of its own where a GPU is involved, so that neither half computes less while bytes are on their
way; between two CPU places it is the source's thread. The next copy may land while the target still works with its
inbox: a half that is ahead does not wait for the other to end, only for it to have begun.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from spreeze.learner.places import CudaPlace, Mark, Place


class Crossing:
    """`shapes`: the tensors by name, in their order; a crossing carries the first few of them, or all."""

    def __init__(
        self, source: Place, target: Place, shapes: Mapping[str, Sequence[int]], dtype: torch.dtype = torch.float32
    ) -> None:
        ends, size = [], 0
        for shape in shapes.values():
            size += math.prod(shape)
            ends.append(size)
        self._ends = [0, *ends]
        on_gpu = [place.device for place in (source, target) if place.device.type == "cuda"]
        self._copier = CudaPlace(f"{source.name} to {target.name}", on_gpu[0]) if on_gpu else source
        pinned = bool(on_gpu)  # what lies on the CPU, for a copy that nobody waits for

        def flat(device: torch.device) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=device, pin_memory=pinned and device.type == "cpu")

        self._outbox, self._landing, self._inbox = flat(source.device), flat(target.device), flat(target.device)
        self._outbox_views, self.inbox = (
            {
                name: box[self._ends[index] : self._ends[index + 1]].view(*shape)
                for index, (name, shape) in enumerate(shapes.items())
            }
            for box in (self._outbox, self._inbox)
        )
        for device in on_gpu:  # the copier's stream waits for neither's: the zeros are there before the first copy
            torch.cuda.synchronize(device)
        self._copied: list[Mark] = []
        self._taken: list[Mark] = []
        self.count = 0
        self.bytes = 0  # that have crossed, or are about to

    def pack(self, *tensors: Tensor) -> None:
        """In the source's work, submitted after `free_to_pack`: the first few, in their order."""
        for box, tensor in zip(self._outbox_views.values(), tensors, strict=False):
            box.copy_(tensor)

    @property
    def free_to_pack(self) -> Sequence[Mark]:
        return self._copied

    def cross(self, packed: Mark, tensors: int) -> Mark:
        """Copies the first so many `tensors` when `packed` is reached -> the mark of their arrival."""
        end = self._ends[tensors]

        def copy() -> None:
            self._landing[:end].copy_(self._outbox[:end], non_blocking=True)

        self._copied = [self._copier.submit(copy, (packed, *self._taken))]
        self.count += 1
        self.bytes += end * self._outbox.element_size()
        return self._copied[0]

    def take(self) -> None:
        """In the target's work, submitted after the arrival; its mark goes to `note_taken`."""
        self._inbox.copy_(self._landing)

    def note_taken(self, taken: Mark) -> None:
        self._taken = [taken]
