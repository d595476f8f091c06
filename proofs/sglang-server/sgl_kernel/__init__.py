"""In the place of SGLang's kernels, which come only for graphics cards. SGLang imports them on a processor too, and calls none of them there."""

import torch


class _Absent:
    def __init__(self, name):
        self.name = name

    def __call__(self, *_, **__):
        raise NotImplementedError(f"sgl_kernel.{self.name} needs a graphics card")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.name}.{name}")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Absent(name)


# Adapters ask for memory that a graphics card could read, which torch refuses where there is none.
def _unpinned(make):
    return lambda *args, pin_memory=False, **more: make(*args, **more)


for _name in ("tensor", "empty", "zeros", "ones", "full", "arange"):
    setattr(torch, _name, _unpinned(getattr(torch, _name)))
torch.Tensor.pin_memory = lambda tensor, *_, **__: tensor
